#!/bin/busybox sh
# The kernel's first process: finds the disk, and hands over to the init that the kernel's command
# line names as `layout`.
bb=/bin/busybox
$bb mount -t devtmpfs dev /dev
for module in /modules/*; do $bb insmod "$module"; done
until [ -b /dev/vda ]; do $bb sleep 0.1; done
$bb mount -t ext4 /dev/vda /new
$bb mount --move /dev /new/dev
exec $bb switch_root /new "/init-$layout"
