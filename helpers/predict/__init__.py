"""What a parallelism costs, by formula; never imports torch."""
