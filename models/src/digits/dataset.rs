//! The 1,797 digits, embedded. models/data/README.md says where they come from.

use std::io::Read;

use flate2::read::GzDecoder;

static COMPRESSED: &[u8] = include_bytes!("../../data/digits.csv.gz");

/// Pixels of an image.
pub const PIXELS: usize = 64;
/// Classes.
pub const DIGITS: usize = 10;

/// Images and what they show.
#[derive(Clone, PartialEq, Debug)]
pub struct Dataset {
    /// [`PIXELS`] per image, each a multiple of 1/16 from 0 to 1.
    pub pixels: Vec<f32>,
    /// The digit of each image.
    pub labels: Vec<i32>,
}

impl Dataset {
    /// The embedded digits, in file order.
    ///
    /// # Panics
    /// Never, unless the embedded file is damaged.
    pub fn embedded() -> Self {
        let mut text = String::new();
        GzDecoder::new(COMPRESSED).read_to_string(&mut text).expect("the embedded digits are a gzip file of text");
        let mut dataset = Dataset { pixels: Vec::new(), labels: Vec::new() };
        for line in text.lines() {
            let numbers: Vec<u8> = line
                .split(',')
                .map(|number| number.parse().expect("the embedded digits are lines of small whole numbers"))
                .collect();
            let [pixels @ .., label] = &numbers[..] else { panic!("a line of the embedded digits is empty") };
            assert_eq!(pixels.len(), PIXELS, "each embedded digit has 64 pixels");
            dataset.pixels.extend(pixels.iter().map(|&pixel| f32::from(pixel) / 16.0));
            dataset.labels.push(i32::from(*label));
        }
        dataset
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_is_there() {
        let dataset = Dataset::embedded();
        assert_eq!((dataset.len(), dataset.pixels.len()), (1797, 1797 * PIXELS));
        let count = |digit| dataset.labels.iter().filter(|&&label| label == digit).count();
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(count), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }

    #[test]
    fn pixels_are_sixteenths() {
        assert!(
            Dataset::embedded().pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel) && (pixel * 16.0).fract() == 0.0)
        );
    }
}
