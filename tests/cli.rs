//! What a person sees: transcripts of `tests/cli/`. `TRYCMD=overwrite cargo test --test cli` writes them anew.

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("tests/cli/*.trycmd").env("NO_COLOR", "1");
}
