"""Each kind of limit alone, and the laws that hold for all of them."""
