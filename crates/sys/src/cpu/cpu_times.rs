//! How each CPU has spent its time, from /proc/stat (proc_stat(5)).

use crate::fields::Fields;

/// Clock ticks since boot: user, nice, system, idle, iowait, irq, softirq, steal.
pub type Ticks = [u64; 8];

/// Passes the line of all CPUs (`None`) and of each online CPU to `each`, in the order of the file. Malformed lines are
/// skipped.
pub fn parse(text: &[u8], each: &mut dyn FnMut(Option<u32>, &Ticks)) {
    for line in text.split(|&byte| byte == b'\n') {
        // These lines come first, and what follows is long: a count for every interrupt.
        let Some(rest) = line.strip_prefix(b"cpu") else { break };
        let mut fields = Fields::of(rest);
        let cpu = if rest.first() == Some(&b' ') {
            None
        } else {
            let Some(number) = fields.number().and_then(|number| u32::try_from(number).ok()) else { continue };
            Some(number)
        };
        let mut ticks = Ticks::default();
        // Before Linux 2.6.11 there were fewer fields; the first four have always existed.
        let count = ticks.iter_mut().map_while(|place| fields.number().map(|value| *place = value)).count();
        if count >= 4 {
            each(cpu, &ticks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_reported_and_malformed_lines_skipped() {
        let mut found = Vec::new();
        let text =
            b"cpu  9 1 2 3 4 5 6 7 0 0\ncpu0 4 1 2 3\ncpux 1 2 3 4\ncpu1 1 2\ncpu3 5 0 0 1 x\nintr 99\ncpu4 1 1 1 1\n";
        parse(text, &mut |cpu, ticks| found.push((cpu, *ticks)));
        let expected = [
            (None, [9, 1, 2, 3, 4, 5, 6, 7]),
            (Some(0), [4, 1, 2, 3, 0, 0, 0, 0]),
            (Some(3), [5, 0, 0, 1, 0, 0, 0, 0]),
        ];
        assert_eq!(found, expected);
    }
}
