//! How alike texts are, as a table: the whole matrix where it fits the terminal, else each text with the one most alike.

use console::{Alignment, measure_text_width, pad_str, truncate_str};
use systole_models::Text;

use crate::output::HEADING;

/// Columns of a number and the space before it.
const NUMBER: usize = 9;
/// Fewest columns that a text is shortened to.
const SHORTEST: usize = 16;
/// Most columns that a text takes.
const LONGEST: usize = 60;

/// `matrix` is [texts, texts], row-major. A line break ends each line.
pub(crate) fn render(texts: &[Text], matrix: &[f32], columns: usize) -> String {
    let index = texts.len().to_string().len();
    let room = |numbers: usize| columns.saturating_sub(index + 2 + NUMBER * numbers);
    let whole = room(texts.len()) >= SHORTEST;
    let labels: Vec<_> = texts.iter().map(|text| one_line(&text.text)).collect();
    let widest = labels.iter().map(|label| measure_text_width(label)).max().unwrap_or(0);
    // Without the matrix: the other text, its number and how alike they are.
    let room = if whole { room(texts.len()) } else { room(1).saturating_sub(index + 4) / 2 };
    let width = widest.min(room.clamp(SHORTEST, LONGEST)).max("similarity".len());
    let label = |at: usize| pad_str(&truncate_str(&labels[at], width, "…"), width, Alignment::Left, None).into_owned();

    let head: String = match whole {
        true => (1..=texts.len()).map(|at| format!("{at:>NUMBER$}")).collect(),
        false => format!("{:>NUMBER$}  most alike", ""),
    };
    let mut text = format!("{HEADING}{:<index$}  {:<width$}{head}{HEADING:#}\n", "", "similarity");
    for (at, row) in matrix.chunks_exact(texts.len()).enumerate() {
        text += &format!("{:>index$}  {}", at + 1, label(at));
        if whole {
            row.iter().for_each(|value| text += &format!("{value:>NUMBER$.4}"));
        } else if let Some(other) = most_alike(row, at) {
            text += &format!("{:>NUMBER$.4}  {:>index$}  {}", row[other], other + 1, label(other));
        }
        text.truncate(text.trim_end().len());
        text += "\n";
    }
    text
}

/// The text that text `at` is most alike, itself aside.
fn most_alike(row: &[f32], at: usize) -> Option<usize> {
    let others = (0..row.len()).filter(|&other| other != at);
    others.max_by(|&a, &b| row[a].total_cmp(&row[b]))
}

/// A text as one line that moves no cursor.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(texts: &[&str], columns: usize, expected: &Expect) {
        let count = texts.len();
        let matrix: Vec<_> = (0..count * count)
            .map(|i| 1.0 - 0.25 * (i / count).abs_diff(i % count) as f32 + 0.01 * (i % count) as f32)
            .collect();
        let texts: Vec<_> = texts.iter().map(|&text| Text { text: String::from(text), tokens: 3, taken: 3 }).collect();
        expected.assert_eq(&anstream::adapter::strip_str(&render(&texts, &matrix, columns)).to_string());
    }

    #[test]
    fn the_matrix_where_it_fits() {
        check(
            &["The weather is lovely today.", "", "a\u{1b}[31m\nb"],
            80,
            &expect![[r#"
                    similarity                          1        2        3
                 1  The weather is lovely today.   1.0000   0.7600   0.5200
                 2                                 0.7500   1.0100   0.7700
                 3  a [31m b                       0.5000   0.7600   1.0200
            "#]],
        );
    }

    #[test]
    fn long_texts_are_shortened() {
        check(
            &["The weather is lovely today.", "空模様がすばらしい、今日は散歩に出かけよう"],
            40,
            &expect![[r#"
                   similarity                 1        2
                1  The weather is lov…   1.0000   0.7600
                2  空模様がすばらしい…   0.7500   1.0100
            "#]],
        );
    }

    #[test]
    fn the_most_alike_where_the_matrix_does_not_fit() {
        check(
            &["one", "two", "three", "four", "five", "six"],
            60,
            &expect![[r#"
                   similarity           most alike
                1  one          0.7600  2  two
                2  two          0.7700  3  three
                3  three        0.7800  4  four
                4  four         0.7900  5  five
                5  five         0.8000  6  six
                6  six          0.7900  5  five
            "#]],
        );
    }

    #[test]
    fn one_text_is_alike_itself() {
        check(
            &["one"],
            10,
            &expect![[r#"
                    similarity           most alike
                 1  one
            "#]],
        );
    }
}
