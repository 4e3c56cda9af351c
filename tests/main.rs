//! The integration tests: a module for each part of the product, tested from outside.

mod android_module;
mod android_policy;
mod binder_cache_core;
mod boot_diagnosis;
mod chart_browser;
mod chart_large;
mod cli;
mod daemon;
mod debian_package;
mod dev_clean;
mod devtools;
mod documents;
mod evidence;
mod figures;
mod fleet;
mod floors;
mod fuzz_short;
mod golden;
mod lab;
mod loopback;
#[path = "../xtask/src/evidence/measured.rs"]
mod measured;
mod mechanism_example;
mod monitoring;
mod packaging;
#[path = "../xtask/src/evidence/paper_pages.rs"]
mod paper_pages;
mod papers;
mod patience;
mod prove;
mod report_browser;
mod report_properties;
mod service_user;
mod static_brisk;
#[path = "../xtask/src/evidence/support.rs"]
mod support;
mod top;
mod trace_browser;
mod trace_explain;
#[path = "../xtask/src/evidence/traceability.rs"]
mod traceability;
mod undo;
mod vocabulary;
