"""What is deployed: manifests, chart, unit and image, judged as rendered or as running."""
