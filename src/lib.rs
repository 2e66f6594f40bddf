//! Eager tensor programs at the speed of a fusing compiler, with the same bits.
