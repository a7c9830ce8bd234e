"""The data: arrays and tables become `Instances`, one flat list of items with offsets."""
