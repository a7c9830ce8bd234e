import numpy as np
from slow_matching import best_value, blossom_with_duals, blossoms_of, complete, verify_duals


def nested(duals):
    """Whether a blossom lies inside another."""
    n = len(duals.mate)
    return any(duals.parents[node] >= 0 for node in blossoms_of(duals) if node >= n)


def value_of(duals):
    n = len(duals.mate)
    return int(sum(duals.doubled[a, duals.mate[a]] for a in range(n)))


def test_duals_prove_the_optimum():
    """Many ties and few weights make many blossoms, some of them nested and some expanded."""
    rng = np.random.default_rng(0)
    n_with_blossoms = n_nested = 0
    for trial in range(400):
        n_nodes = int(rng.integers(3, 25))
        u, v = complete(n_nodes)
        top, density = int(rng.integers(2, 12)), rng.uniform(0.15, 1)
        weights = rng.integers(1, top, len(u)) * (rng.random(len(u)) < density) * 1.0
        weights[trial % len(u)] = 1.0
        duals = blossom_with_duals(weights, u, v, n_nodes)
        assert verify_duals(duals)
        n_with_blossoms += bool(blossoms_of(duals))
        n_nested += nested(duals)
    assert n_with_blossoms > 50
    assert n_nested > 5


def test_duals_of_places_in_the_plane():
    """Closeness makes clusters within clusters: blossoms that last, nest and fall apart."""
    rng = np.random.default_rng(1)
    n_nested = 0
    for trial in range(250):
        n_nodes = int(rng.integers(10, 34))
        u, v = complete(n_nodes)
        places = rng.normal(size=(n_nodes, 2))
        if trial % 3 == 0:
            places = rng.integers(0, 6, (n_nodes, 2))
        distance = np.abs(places[u] - places[v]).sum(axis=1)
        duals = blossom_with_duals(distance.max() * 1.01 - distance, u, v, n_nodes)
        assert verify_duals(duals)
        n_nested += nested(duals)
    assert n_nested > 50


def test_weights_become_integers_without_loss():
    rng = np.random.default_rng(1)
    for size in (1.0, 1e-310, 1e300, 3e-9):
        weights = rng.random(6) * size
        u, v = complete(4)
        duals = blossom_with_duals(weights, u, v, 4)
        largest = weights.max()
        back = duals.doubled[u, v] / duals.doubled[u, v].max() * largest
        np.testing.assert_allclose(back, weights, rtol=0, atol=largest * 2.0**-50)


def test_value_is_the_brute_force_value():
    rng = np.random.default_rng(2)
    for n_nodes in (2, 3, 5, 8):
        u, v = complete(n_nodes)
        for _ in range(20):
            weights = rng.integers(1, 9, len(u)).astype(float)
            duals = blossom_with_duals(weights, u, v, n_nodes)
            unit = duals.doubled[u, v].max() / weights.max()
            best = best_value(weights.tolist(), u.tolist(), v.tolist(), n_nodes)
            assert value_of(duals) / unit == 2 * best


def test_corrupted_dualss_are_caught():
    rng = np.random.default_rng(7)
    n_nodes = 16
    u, v = complete(n_nodes)
    while True:
        weights = rng.integers(0, 5, len(u)).astype(float)
        duals = blossom_with_duals(weights, u, v, n_nodes)
        if any(duals.z[node] > 0 for node in blossoms_of(duals)):
            break
    assert verify_duals(duals)
    blossom = next(node for node in blossoms_of(duals) if duals.z[node] > 0)
    for part, place, change in (("y", 0, 1), ("y", 3, -1), ("z", blossom, 2), ("z", blossom, -2)):
        corrupted = duals._asdict()[part].copy()
        corrupted[place] += change
        assert not verify_duals(duals._replace(**{part: corrupted}))
    lighter = duals.mate.copy()
    a, b = 0, int(lighter[0])
    for c in range(1, n_nodes):
        d = int(lighter[c])
        old, new = ((a, b), (c, d)), ((a, c), (b, d))
        if c != b and sum(duals.doubled[e] for e in old) > sum(duals.doubled[e] for e in new):
            lighter[[a, c, b, d]] = [c, a, d, b]
            break
    assert not np.array_equal(lighter, duals.mate)
    assert not verify_duals(duals._replace(mate=lighter))
