//! The virtual device: stock kernels under QEMU, with every file of the guest written by brisk.
