//! What a kernel says of sched_switch, and pages with such events, for tests.

use brisk_sys::system::trace_pages::PageLayout;

use crate::header::{self, Header, Parts};

pub const LAYOUT: PageLayout = PageLayout { page_bytes: 4096, long_bytes: 8 };

pub const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;";

/// As Linux 6.1 prints it, up to what is printed.
pub const SWITCH: &str = "name: sched_switch\nID: 316\nformat:\n\
                          \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                          \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
                          \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
                          \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                          \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                          \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
                          \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
                          \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
                          \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
                          \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
                          \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;";

/// Text that programs write.
const PRINT: &str = "name: print\nID: 5\nformat:\n\
                     \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                     \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
                     \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;";

/// A header for sched_switch and text.
pub fn header(cpus: u16) -> Header {
    let parts = Parts {
        page: PAGE.to_owned(),
        event: "# compressed entry header".to_owned(),
        print: PRINT.to_owned(),
        formats: vec![("sched".to_owned(), vec![SWITCH.to_owned()])],
        clock: "local [boot] mono".to_owned(),
        ..Parts::default()
    };
    header::lay_out(&parts, LAYOUT, cpus)
}

/// A page with one switch from thread `prev` to `next`.
pub fn page(time_ns: u64, prev: u32, next: u32) -> Vec<u8> {
    let mut event = [316_u16.to_ne_bytes(), [0, 0]].concat();
    let name = |tid: u32| {
        let mut name = format!("thread{tid}").into_bytes();
        name.resize(16, 0);
        name
    };
    event.extend(prev.to_ne_bytes());
    event.extend(name(prev));
    event.extend([prev.to_ne_bytes(), 120_u32.to_ne_bytes()].concat());
    event.extend(1_u64.to_ne_bytes());
    event.extend(name(next));
    event.extend([next.to_ne_bytes(), 120_u32.to_ne_bytes()].concat());
    let mut page = [time_ns.to_ne_bytes(), (event.len() as u64 + 4).to_ne_bytes()].concat();
    // The length in words, and no time since the page's.
    page.extend((event.len() as u32 / 4).to_ne_bytes());
    page.extend(event);
    page.resize(LAYOUT.page_bytes, 0xee);
    page
}
