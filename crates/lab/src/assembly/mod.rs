//! The parts of a guest: packages, kernels, modules, programs and their libraries, kept in a cache.

pub(super) mod apt;
pub(super) mod cache;
pub(super) mod image;
pub(super) mod initramfs;
pub(super) mod kernels;
pub(super) mod libraries;
pub(super) mod modules;
pub(super) mod packages;
pub(super) mod program;
pub(super) mod programs;
