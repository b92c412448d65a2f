#!/bin/busybox sh
# The init of a machine without systemd: mounts what a node has, and runs the one job.
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t tmpfs run /run
$bb mkdir -p /dev/pts /dev/shm /dev/mqueue
$bb mount -t devpts devpts /dev/pts
$bb mount -t tmpfs shm /dev/shm
$bb mount -t mqueue mqueue /dev/mqueue
$bb mount -t cgroup2 cgroup2 /sys/fs/cgroup
$bb ip link set lo up
set -a
. /etc/vm.env
LAYOUT=cgroupfs
python3 -m testbed.vm.guest
$bb poweroff -f
