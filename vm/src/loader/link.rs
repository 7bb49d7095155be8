//! Laying out sections, finding symbols, applying relocations.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags,
    SymbolIndex, SymbolKind, SymbolSection,
};

use super::{Error, Library, Mapping, runtime};

type Elf<'a> = ElfFile64<'a, Endianness>;

/// More bytes than this are no program's code.
const MAX_BYTES: usize = 1 << 30;
const PAGE: usize = 4096;
/// A stub is `jmp *[rip + disp]` and two bytes of filling.
const STUB: usize = 8;

/// Section flags and types of the ELF format.
mod section {
    pub(super) const WRITE: u64 = 1;
    pub(super) const ALLOC: u64 = 2;
    pub(super) const EXECUTE: u64 = 4;
    pub(super) const TLS: u64 = 0x400;
    pub(super) const NO_BITS: u32 = 8;
    pub(super) const INIT_ARRAY: u32 = 14;
    pub(super) const FINI_ARRAY: u32 = 15;
}

/// Relocation types of the x86-64 psABI. S: the symbol's address, A: the addend, P: the place's own address,
/// G: the address of the table entry that holds S.
mod reloc {
    pub(super) const NONE: u32 = 0;
    /// S + A, 64 bits.
    pub(super) const ABS64: u32 = 1;
    /// S + A - P, 32 bits.
    pub(super) const PC32: u32 = 2;
    /// The same, of a function; may go by a stub.
    pub(super) const PLT32: u32 = 4;
    /// G + A - P, 32 bits.
    pub(super) const GOTPCREL: u32 = 9;
    /// S + A, 32 bits, unsigned.
    pub(super) const ABS32: u32 = 10;
    /// S + A, 32 bits, signed.
    pub(super) const ABS32S: u32 = 11;
    /// S + A - P, 64 bits.
    pub(super) const PC64: u32 = 24;
    /// As GOTPCREL, in instructions that could do without the table.
    pub(super) const GOTPCRELX: u32 = 41;
    /// The same with a REX prefix.
    pub(super) const REX_GOTPCRELX: u32 = 42;
}

/// Objects to a protected mapping and the offsets of the functions in it.
pub(super) fn link(
    objects: &[&[u8]],
    libraries: &[Library],
) -> Result<(Mapping, BTreeMap<String, usize>), Error> {
    let mut files = Vec::new();
    for (object, bytes) in objects.iter().enumerate() {
        files.push(parse(bytes).map_err(|what| Error::Object { object, what })?);
    }
    let layout = lay_out(&files)?;
    let mut map = Mapping::new(layout.ends[2].max(PAGE))?;
    let image = map.bytes_mut();
    for (&(o, s), &(at, size)) in &layout.sections {
        let data = section_data(&files[o], s).map_err(|what| Error::Object { object: o, what })?;
        // A section without bits in the file is zeros, which the mapping already is.
        image[at..at + size.min(data.len())].copy_from_slice(&data[..size.min(data.len())]);
    }
    let base = map.address();
    let globals = globals(&files, &layout)?;
    let mut linker = Linker { layout: &layout, globals: &globals, libraries, base, table: BTreeMap::new() };
    for object in 0..files.len() {
        linker.relocate(&files, object, map.bytes_mut())?;
    }
    let [code, constants, _] = layout.ends;
    map.protect(0, code, true)?;
    map.protect(code, constants, false)?;
    let functions =
        globals.iter().filter(|(_, g)| g.at < code && g.function).map(|(n, g)| (n.clone(), g.at)).collect();
    Ok((map, functions))
}

fn parse(bytes: &[u8]) -> Result<Elf<'_>, String> {
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(|e| e.to_string())?;
    if file.architecture() != object::Architecture::X86_64 {
        return Err("it is not for x86-64".to_owned());
    }
    if file.kind() != object::ObjectKind::Relocatable {
        return Err("it is not a relocatable object".to_owned());
    }
    Ok(file)
}

/// Where everything goes.
struct Layout {
    /// Sections that are loaded: (object, section) to (offset, size).
    sections: BTreeMap<(usize, usize), (usize, usize)>,
    /// Where the stubs start, one for each place of the table.
    stubs: usize,
    /// Where the table of addresses starts.
    table: usize,
    places: usize,
    /// Where the code ends, where the constants end, where the data end.
    ends: [usize; 3],
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other formats are not compiled in")]
fn flags(f: SectionFlags) -> (u64, u32) {
    match f {
        SectionFlags::Elf { sh_type, sh_flags } => (sh_flags.0, sh_type.0),
        _ => (0, 0),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other formats are not compiled in")]
fn r_type(f: RelocationFlags) -> u32 {
    match f {
        RelocationFlags::Elf { r_type } => r_type.0,
        _ => u32::MAX,
    }
}

fn section_data<'a>(file: &Elf<'a>, index: usize) -> Result<&'a [u8], String> {
    let s = file.section_by_index(object::SectionIndex(index)).map_err(|e| e.to_string())?;
    if flags(s.flags()).1 == section::NO_BITS { Ok(&[]) } else { s.data().map_err(|e| e.to_string()) }
}

/// A section that is loaded: (object, section), size, alignment.
type Member = ((usize, usize), usize, usize);

fn lay_out(files: &[Elf<'_>]) -> Result<Layout, Error> {
    let mut parts: [Vec<Member>; 3] = Default::default();
    let mut places = 0usize;
    for (object, file) in files.iter().enumerate() {
        let refuse = |what: String| Error::Object { object, what };
        for s in file.sections() {
            let (flags, kind) = flags(s.flags());
            if flags & section::ALLOC == 0 {
                continue;
            }
            if flags & section::TLS != 0 {
                return Err(refuse("thread-local data is not supported".to_owned()));
            }
            if matches!(kind, section::INIT_ARRAY | section::FINI_ARRAY) {
                return Err(refuse("constructors are not supported".to_owned()));
            }
            let part = match (flags & section::EXECUTE != 0, flags & section::WRITE != 0) {
                (true, true) => return Err(refuse("a section is both writable and executable".to_owned())),
                (true, false) => 0,
                (false, false) => 1,
                (false, true) => 2,
            };
            let size = usize::try_from(s.size()).ok().filter(|&n| n <= MAX_BYTES);
            let size = size.ok_or_else(|| refuse(format!("a section of {} bytes", s.size())))?;
            let align = usize::try_from(s.align().max(1)).ok().filter(|a| a.is_power_of_two() && *a <= PAGE);
            let align = align.ok_or_else(|| refuse(format!("a section aligned to {}", s.align())))?;
            parts[part].push(((object, s.index().0), size, align));
            // At most one place of the table for each relocation.
            places = places
                .saturating_add(s.relocations().filter(|(_, r)| needs_place(r_type(r.flags()))).count());
        }
    }
    let mut sections = BTreeMap::new();
    let mut at = 0usize;
    let (mut stubs, mut table) = (0, 0);
    let mut ends = [0; 3];
    for (part, members) in parts.into_iter().enumerate() {
        for (key, size, align) in members {
            at = at.next_multiple_of(align);
            sections.insert(key, (at, size));
            at += size;
            if at > MAX_BYTES {
                return Err(Error::Memory("the objects are too large".to_owned()));
            }
        }
        at = at.next_multiple_of(16);
        if part == 0 {
            stubs = at;
            at = at.saturating_add(places.saturating_mul(STUB));
        } else if part == 1 {
            table = at;
            at = at.saturating_add(places.saturating_mul(8));
        }
        if at > MAX_BYTES {
            return Err(Error::Memory("the objects are too large".to_owned()));
        }
        at = at.next_multiple_of(PAGE);
        ends[part] = at;
    }
    Ok(Layout { sections, stubs, table, places, ends })
}

fn needs_place(kind: u32) -> bool {
    matches!(kind, reloc::PLT32 | reloc::GOTPCREL | reloc::GOTPCRELX | reloc::REX_GOTPCRELX)
}

/// A symbol that objects see of each other.
struct Global {
    /// Its offset in the mapping.
    at: usize,
    weak: bool,
    function: bool,
}

fn globals(files: &[Elf<'_>], layout: &Layout) -> Result<BTreeMap<String, Global>, Error> {
    let mut all: BTreeMap<String, Global> = BTreeMap::new();
    for (object, file) in files.iter().enumerate() {
        let refuse = |what: String| Error::Object { object, what };
        for symbol in file.symbols() {
            if !symbol.is_global() || symbol.is_undefined() {
                continue;
            }
            let name = symbol.name().map_err(|e| refuse(e.to_string()))?.to_owned();
            if symbol.is_common() {
                return Err(refuse(format!("`{name}` is a common symbol")));
            }
            let SymbolSection::Section(s) = symbol.section() else { continue };
            let Some(&(at, size)) = layout.sections.get(&(object, s.0)) else { continue };
            let offset = usize::try_from(symbol.address()).ok().filter(|&o| o <= size);
            let offset = offset.ok_or_else(|| refuse(format!("`{name}` is outside of its section")))?;
            // An entry needs at least one byte to be called at.
            let function = symbol.kind() == SymbolKind::Text && offset < size;
            let new = Global { at: at + offset, weak: symbol.is_weak(), function };
            match all.get(&name) {
                Some(old) if !old.weak && !new.weak => {
                    return Err(refuse(format!("`{name}` is defined twice")));
                }
                Some(old) if !old.weak || new.weak => {}
                _ => {
                    all.insert(name, new);
                }
            }
        }
    }
    Ok(all)
}

/// What a relocation is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// A place in the mapping.
    Inside(usize),
    /// An address elsewhere.
    Outside(usize),
}

struct Linker<'a> {
    layout: &'a Layout,
    globals: &'a BTreeMap<String, Global>,
    libraries: &'a [Library],
    /// The address of the mapping.
    base: usize,
    /// Places of the table by the address they hold.
    table: BTreeMap<usize, usize>,
}

impl Linker<'_> {
    fn relocate(&mut self, files: &[Elf<'_>], object: usize, image: &mut [u8]) -> Result<(), Error> {
        let refuse = |what: String| Error::Object { object, what };
        for s in files[object].sections() {
            let Some(&(at, size)) = self.layout.sections.get(&(object, s.index().0)) else { continue };
            for (offset, r) in s.relocations() {
                let kind = r_type(r.flags());
                if kind == reloc::NONE {
                    continue;
                }
                if r.has_implicit_addend() {
                    return Err(refuse("a relocation without an addend".to_owned()));
                }
                let width = if matches!(kind, reloc::ABS64 | reloc::PC64) { 8 } else { 4 };
                let offset =
                    usize::try_from(offset).ok().filter(|o| o.checked_add(width).is_some_and(|e| e <= size));
                let offset =
                    offset.ok_or_else(|| refuse("a relocation is outside of its section".to_owned()))?;
                let target = self.target(files, object, r.target())?;
                let value = self
                    .value(kind, &target, r.addend(), at + offset, image)
                    .map_err(|what| refuse(format!("relocation of type {kind}: {what}")))?;
                image[at + offset..at + offset + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
        }
        Ok(())
    }

    fn target(&self, files: &[Elf<'_>], object: usize, target: RelocationTarget) -> Result<Target, Error> {
        let refuse = |what: &str| Error::Object { object, what: what.to_owned() };
        match target {
            RelocationTarget::Symbol(index) => self.symbol(files, object, index),
            RelocationTarget::Section(s) => {
                let found = self.layout.sections.get(&(object, s.0));
                found
                    .map(|&(at, _)| Target::Inside(at))
                    .ok_or_else(|| refuse("a section that is not loaded is used"))
            }
            RelocationTarget::Absolute => Ok(Target::Outside(0)),
            _ => Err(refuse("an unknown kind of target")),
        }
    }

    fn symbol(&self, files: &[Elf<'_>], object: usize, index: SymbolIndex) -> Result<Target, Error> {
        let refuse = |what: String| Error::Object { object, what };
        let symbol = files[object].symbol_by_index(index).map_err(|e| refuse(e.to_string()))?;
        match symbol.section() {
            // A global may have been overruled by another object's definition of its name.
            SymbolSection::Section(s) if !symbol.is_global() => {
                let &(at, size) = self
                    .layout
                    .sections
                    .get(&(object, s.0))
                    .ok_or_else(|| refuse("a section that is not loaded is used".to_owned()))?;
                let offset = usize::try_from(symbol.address()).ok().filter(|&o| o <= size);
                offset
                    .map(|o| Target::Inside(at + o))
                    .ok_or_else(|| refuse("a symbol is outside of its section".to_owned()))
            }
            SymbolSection::Absolute => Ok(Target::Outside(symbol.address() as usize)),
            SymbolSection::Section(_) | SymbolSection::Undefined | SymbolSection::Common => {
                let name = symbol.name().map_err(|e| refuse(e.to_string()))?;
                if let Some(g) = self.globals.get(name) {
                    return Ok(Target::Inside(g.at));
                }
                let found = runtime(name).or_else(|| self.libraries.iter().find_map(|l| l.find(name)));
                found.map(Target::Outside).ok_or_else(|| Error::Undefined(name.to_owned()))
            }
            SymbolSection::Unknown | SymbolSection::None | _ => {
                Err(refuse("a symbol without a place is used".to_owned()))
            }
        }
    }

    /// What is written at `place` (an offset in the mapping).
    fn value(
        &mut self,
        kind: u32,
        target: &Target,
        addend: i64,
        place: usize,
        image: &mut [u8],
    ) -> Result<i64, String> {
        let address = match *target {
            Target::Inside(at) => self.base.wrapping_add(at),
            Target::Outside(address) => address,
        };
        let here = self.base.wrapping_add(place);
        let absolute = (address as i64).wrapping_add(addend);
        let near = |to: usize| {
            let distance = (to as i64).wrapping_add(addend).wrapping_sub(here as i64);
            i32::try_from(distance).map(i64::from).map_err(|_| "the symbol is too far away".to_owned())
        };
        match kind {
            reloc::ABS64 => Ok(absolute),
            reloc::PC64 => Ok(absolute.wrapping_sub(here as i64)),
            reloc::ABS32 => {
                u32::try_from(absolute).map(i64::from).map_err(|_| "the address is too large".to_owned())
            }
            reloc::ABS32S => {
                i32::try_from(absolute).map(i64::from).map_err(|_| "the address is too large".to_owned())
            }
            reloc::PC32 => near(address),
            reloc::PLT32 => match near(address) {
                Ok(distance) => Ok(distance),
                Err(_) => {
                    let stub = self.stub(address, image)?;
                    near(self.base.wrapping_add(stub))
                }
            },
            reloc::GOTPCREL | reloc::GOTPCRELX | reloc::REX_GOTPCRELX => {
                let entry = self.layout.table + 8 * self.address_slot(address, image)?;
                near(self.base.wrapping_add(entry))
            }
            _ => Err("it is not supported".to_owned()),
        }
    }

    /// The number of the place of the table that holds an address.
    fn address_slot(&mut self, address: usize, image: &mut [u8]) -> Result<usize, String> {
        if let Some(&place) = self.table.get(&address) {
            return Ok(place);
        }
        let place = self.table.len();
        if place >= self.layout.places {
            return Err("the table of addresses is full".to_owned());
        }
        self.table.insert(address, place);
        let entry = self.layout.table + 8 * place;
        image[entry..entry + 8].copy_from_slice(&(address as u64).to_le_bytes());
        Ok(place)
    }

    /// Where code is that jumps to an address however far away.
    fn stub(&mut self, address: usize, image: &mut [u8]) -> Result<usize, String> {
        let place = self.address_slot(address, image)?;
        let (stub, entry) = (self.layout.stubs + STUB * place, self.layout.table + 8 * place);
        // Counted from the end of the 6-byte instruction; both are inside one mapping of at most MAX_BYTES.
        let distance = i32::try_from(entry as i64 - (stub as i64 + 6)).map_err(|e| e.to_string())?;
        image[stub..stub + 2].copy_from_slice(&[0xff, 0x25]);
        image[stub + 2..stub + 6].copy_from_slice(&distance.to_le_bytes());
        Ok(stub)
    }
}
