//! Memory accounting: tensors whose bytes count as held for as long as anyone holds them.
//!
//! A run has one [`Ledger`]: what it makes is entered when it is made and struck out when its last holder lets go, so
//! that the limit is on what lives at once, as that of the machine is. Arguments, constants and scalars are somebody
//! else's or nothing: they are held by no ledger.

use std::cell::Cell;
use std::rc::Rc;

use tensor::Tensor;

use crate::error::Error;

/// The bytes that a run holds.
#[derive(Debug)]
pub(crate) struct Ledger {
    held: Cell<usize>,
    limit: usize,
}

impl Ledger {
    pub(crate) fn new(limit: usize) -> Rc<Ledger> {
        Rc::new(Ledger { held: Cell::new(0), limit })
    }

    /// Enters bytes, if there is room for them.
    pub(crate) fn enter(&self, bytes: usize) -> Result<(), Error> {
        let held = self.held.get();
        if bytes > self.limit.saturating_sub(held) {
            return Err(Error::Memory { bytes, held, limit: self.limit });
        }
        self.held.set(held + bytes);
        Ok(())
    }

    /// Strikes them out.
    pub(crate) fn strike(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }
}

/// A tensor of a run.
#[derive(Debug)]
pub(crate) struct Held {
    tensor: Tensor,
    /// Where it is entered, if anywhere, and with how much.
    entered: Option<(Rc<Ledger>, usize)>,
}

impl Held {
    /// A tensor of somebody else's.
    pub(crate) fn outside(tensor: Tensor) -> Rc<Held> {
        Rc::new(Held { tensor, entered: None })
    }

    /// A tensor that `make` makes of so many bytes, entered before there is any.
    pub(crate) fn made(
        ledger: &Rc<Ledger>,
        bytes: usize,
        make: impl FnOnce() -> Result<Tensor, Error>,
    ) -> Result<Held, Error> {
        ledger.enter(bytes)?;
        let entered = Some((ledger.clone(), bytes));
        // Struck out again by the drop of a tensor that was not made.
        let mut held = Held { tensor: Tensor::scalar_i(tensor::DType::U8, 0), entered };
        held.tensor = make()?;
        Ok(held)
    }

    /// The tensor alone: a copy where others hold it.
    pub(crate) fn give(this: Rc<Held>) -> Tensor {
        match Rc::try_unwrap(this) {
            Ok(mut held) => std::mem::replace(&mut held.tensor, Tensor::scalar_i(tensor::DType::U8, 0)),
            Err(shared) => shared.tensor.clone(),
        }
    }

    /// The tensor to be written: a copy where others hold it.
    pub(crate) fn own<'t>(this: &'t mut Rc<Held>, ledger: &Rc<Ledger>) -> Result<&'t mut Tensor, Error> {
        if Rc::get_mut(this).is_none() {
            let bytes = this.tensor.bytes().len();
            *this = Rc::new(Held::made(ledger, bytes, || Ok(this.tensor.clone()))?);
        }
        let held = Rc::get_mut(this).expect("it has one holder now");
        Ok(&mut held.tensor)
    }

    /// The tensor while it is made.
    pub(crate) fn tensor_mut(&mut self) -> &mut Tensor {
        &mut self.tensor
    }
}

impl std::ops::Deref for Held {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((ledger, bytes)) = self.entered.take() {
            ledger.strike(bytes);
        }
    }
}
