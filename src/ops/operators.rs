//! `+ - * / -` on tensors. They give a `Result`, like the methods they stand for: `(&a + &b)?`.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use super::Operand;
use crate::error::Result;
use crate::tensor::Tensor;

macro_rules! operator {
    ($($trait:ident $method:ident;)*) => {$(
        impl<R: Operand> $trait<R> for &Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: R) -> Result<Tensor> {
                Tensor::$method(self, rhs)
            }
        }

        impl<R: Operand> $trait<R> for Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: R) -> Result<Tensor> {
                Tensor::$method(&self, rhs)
            }
        }
    )*};
}

operator! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
    Rem rem;
}

impl Neg for &Tensor {
    type Output = Result<Tensor>;
    #[track_caller]
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;
    #[track_caller]
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(&self)
    }
}
