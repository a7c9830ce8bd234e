"""Trees as they are described: one item and one question at a time."""


def answer(question, p, name, is_marked, edges, items):
    """Whether the answer to a question about an item is yes."""
    if question < 0:
        return False
    if question < len(edges):
        return edges[question] <= p
    if question < len(edges) + len(items):
        return items[question - len(edges)] == name
    return is_marked[question - len(edges) - len(items)]


def walk(questions, values, *item):
    """The value of the leaf in which an item ends."""
    leaf = 0
    for question in questions:
        leaf = 2 * leaf + answer(question, *item)
    return values[leaf]
