"""What is deployed, and what is released: manifests, the chart, the image, the systemd unit."""
