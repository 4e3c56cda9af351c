//! The chart as PNG: its SVG painted in light colours, at twice its size, with the machine's fonts. Other drawings are painted too.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use png::{BitDepth, ColorType, Compression, Encoder, Filter};
use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{Options, Tree};
use thiserror::Error;

use super::model::Boot;
use super::svg;

/// Pixels per unit of the SVG: its smallest text is 11 units high.
const SCALE: f32 = 2.0;
/// The picture is painted and packed in strips of this many rows: a long boot's pixels would take a hundred megabytes.
const STRIP_ROWS: u32 = 512;
/// The folder of the first of [`SANS_SERIF`] on Debian: reading it is enough where all text is ASCII.
const USUAL_FONTS: &str = "/usr/share/fonts/truetype/dejavu";
/// Substitutes for `sans-serif` where fontconfig names no installed font.
const SANS_SERIF: [&str; 4] = ["DejaVu Sans", "Noto Sans", "Liberation Sans", "Roboto"];

/// Why there is no picture.
#[derive(Debug, Error)]
pub enum PngError {
    /// No font is installed; a chart needs its text.
    #[error(
        "this machine has no font to write a PNG's text with: install one (Debian: fonts-dejavu-core), or draw .svg"
    )]
    NoFont,
    /// The chart's SVG could not be painted.
    #[error("cannot paint the chart: {0}; draw .svg instead")]
    Paint(String),
}

/// Draws `boot`.
///
/// # Errors
/// [`PngError`]
pub fn render(boot: &Boot) -> Result<Vec<u8>, PngError> {
    of_svg(&svg::render(boot), svg::STYLE)
}

/// Paints a drawing, whose `style` begins with its variables: first those of light colours, then those of dark ones.
///
/// # Errors
/// [`PngError`]
pub fn of_svg(drawing: &str, style: &str) -> Result<Vec<u8>, PngError> {
    let drawing = drawing.replacen(style, &in_light_colours(style), 1);
    let fonts = fonts_for(&drawing, Path::new(USUAL_FONTS));
    paint(&drawing, fonts)
}

/// The fonts that `drawing` may need: reading all of a desktop's takes longer than the rest of the picture.
fn fonts_for(drawing: &str, usual: &Path) -> Database {
    let mut fonts = Database::new();
    if drawing.is_ascii() {
        fonts.load_fonts_dir(usual);
    }
    if fonts.is_empty() {
        fonts.load_system_fonts();
    }
    fonts
}

fn paint(drawing: &str, mut fonts: Database) -> Result<Vec<u8>, PngError> {
    choose_sans_serif(&mut fonts)?;
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(drawing, &options).map_err(|error| PngError::Paint(error.to_string()))?;
    let too_large = || PngError::Paint("it is too large".into());
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(too_large)?;
    let strip = Pixmap::new(size.width(), size.height().min(STRIP_ROWS)).ok_or_else(too_large)?;
    let paint = |strip: &mut Pixmap, first_row: u32| {
        strip.fill(Color::WHITE);
        let place = Transform::from_scale(SCALE, SCALE).post_translate(0.0, -(first_row as f32));
        resvg::render(&tree, place, &mut strip.as_mut());
    };
    pack(size.height(), strip, paint).map_err(|error| PngError::Paint(error.to_string()))
}

/// Encodes a PNG of `height` rows without transparency. `paint` fills the strip with rows, starting at the given one.
fn pack(height: u32, mut strip: Pixmap, paint: impl Fn(&mut Pixmap, u32)) -> Result<Vec<u8>, png::EncodingError> {
    let width = strip.width();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    // A row mostly equals the row above it: after this filter, better compression gains little.
    encoder.set_filter(Filter::Up);
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header()?;
    let mut stream = writer.stream_writer()?;
    let mut row = Vec::with_capacity(width as usize * 3);
    for first_row in (0..height).step_by(STRIP_ROWS as usize) {
        paint(&mut strip, first_row);
        for pixels in strip.data().chunks_exact(width as usize * 4).take((height - first_row) as usize) {
            row.clear();
            row.extend(pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]));
            stream.write_all(&row)?;
        }
    }
    stream.finish()?;
    writer.finish()?;
    Ok(bytes)
}

/// Maps `sans-serif`, the last of the style's families, to an installed font.
fn choose_sans_serif(fonts: &mut Database) -> Result<(), PngError> {
    let has = |fonts: &Database, family| fonts.query(&Query { families: &[family], ..Query::default() }).is_some();
    if has(fonts, Family::SansSerif) {
        return Ok(());
    }
    let known = SANS_SERIF.into_iter().find(|name| has(fonts, Family::Name(name))).map(str::to_owned);
    let any = || fonts.faces().find_map(|face| Some(face.families.first()?.0.clone()));
    let family = known.or_else(any).ok_or(PngError::NoFont)?;
    fonts.set_sans_serif_family(family);
    Ok(())
}

/// `style` with each variable replaced by its first value, which is the light one: resvg does not support variables.
fn in_light_colours(style: &str) -> String {
    let mut variables: Vec<(&str, &str)> = Vec::new();
    for (at, _) in style.match_indices("--") {
        let definition = style[at..].split([';', '}']).next().unwrap_or_default();
        if let Some((name, value)) = definition.split_once(':')
            && !name.contains(')')
            && !variables.iter().any(|(known, _)| *known == name.trim())
        {
            variables.push((name.trim(), value.trim()));
        }
    }
    // The block of the dark ones ends with two braces.
    let mut plain = style.rsplit_once("} }\n").map_or(style, |(_, rules)| rules).to_owned();
    for (name, value) in variables {
        plain = plain.replace(&format!("var({name})"), value);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Shape;
    use crate::sample;

    /// The PNG of `boot`, decoded.
    fn painted(boot: &Boot) -> Pixmap {
        Pixmap::decode_png(&render(boot).unwrap()).unwrap()
    }

    fn generated() -> Boot {
        sample::recording(&Shape::SMALL)
    }

    /// How many pixels of `rows` are as dark as ink.
    fn dark(pixels: &Pixmap, rows: std::ops::Range<u32>) -> usize {
        let width = pixels.width();
        let rows = &pixels.pixels()[(rows.start * width) as usize..(rows.end * width) as usize];
        rows.iter().filter(|pixel| pixel.red() < 90 && pixel.green() < 90 && pixel.blue() < 90).count()
    }

    // Verifies CHART-2.
    #[test]
    fn a_png_is_the_whole_chart_in_its_colours_with_its_text() {
        let boot = generated();
        let pixels = painted(&boot);
        let svg = svg::render(&boot);
        let height: u32 = svg.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        assert_eq!((pixels.width(), pixels.height()), (2 * 1320, 2 * height));
        assert!(pixels.pixels().iter().all(|pixel| pixel.alpha() == 255), "its ground is painted");
        let colour = |red, green, blue| {
            let is = |pixel: &&_| {
                let pixel: &resvg::tiny_skia::PremultipliedColorU8 = pixel;
                (pixel.red(), pixel.green(), pixel.blue()) == (red, green, blue)
            };
            pixels.pixels().iter().filter(is).count()
        };
        assert!(colour(0xff, 0xff, 0xff) > pixels.pixels().len() / 3, "the ground is light");
        assert!(colour(0x2f, 0x74, 0xb8) > 1000, "CPU time of users has its colour");
        // The title is 20 units high, and letters are not a bar.
        let title = dark(&pixels, 0..80);
        assert!((300..20_000).contains(&title), "{title} dark pixels in the title's rows");
    }

    // Verifies CHART-2.
    #[test]
    fn without_a_font_there_is_no_picture_but_a_reason() {
        let error = paint(&svg::render(&generated()), Database::new()).unwrap_err();
        assert!(matches!(error, PngError::NoFont) && error.to_string().contains("fonts-dejavu-core"), "{error}");
    }

    #[test]
    fn a_painters_style_has_no_variable_left() {
        let plain = in_light_colours(svg::STYLE);
        assert!(!plain.contains("var(") && !plain.contains('@') && !plain.contains("--"), "{plain}");
        assert!(plain.contains(".chart .ground { fill: #ffffff; }"), "{plain}");
    }

    // Verifies CHART-2.
    #[test]
    fn four_thousand_cpus_and_nothing_at_all_are_painted() {
        use crate::model::{Core, Span};
        let cores = (0..4096).map(|number| Core { number, busy: vec![50], io_wait: vec![0], ..Core::default() });
        let span = Span { start_ms: 0, end_ms: 1000 };
        let many = painted(&Boot { span, cores: cores.collect(), ..Boot::default() });
        assert!(many.height() < 4000, "{}", many.height());
        assert_eq!(painted(&Boot::default()).width(), 2640);
    }
}
