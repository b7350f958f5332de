//! What is pinned, and for how long.

use super::*;

#[test]
fn a_pin_holds_for_all_below_until_its_time_is_over() {
    let bed = Bed::new();
    let dir = bed.make(Ino::ROOT, "d", FileKind::Directory, NewBytes::CatalogOnly).unwrap().attr.ino;
    let deep = bed.make(dir, "e", FileKind::Directory, NewBytes::CatalogOnly).unwrap().attr.ino;
    let file = bed.make(deep, "f", FileKind::Regular, NewBytes::CatalogOnly).unwrap().attr.ino;
    let other = bed.make(Ino::ROOT, "o", FileKind::Regular, NewBytes::CatalogOnly).unwrap().attr.ino;
    let pin_of = |ino| bed.catalog.pin_of(ino, bed.now()).unwrap();
    assert_eq!(pin_of(file), None);
    let until = Timestamp(bed.now().0 + 1_500_000_000);
    bed.catalog.pin(&[dir], Some(until)).unwrap();
    let pin = Pin { ino: dir, until: Some(until) };
    assert_eq!([pin_of(file), pin_of(deep), pin_of(dir)], [Some(pin); 3]);
    assert_eq!([pin_of(other), pin_of(Ino::ROOT)], [None; 2]);
    bed.catalog.pin(&[other, file], None).unwrap();
    assert_eq!(pin_of(file), Some(Pin { ino: file, until: None }));
    let listed = |after| bed.catalog.pins(bed.now(), after, 10).unwrap();
    assert_eq!(listed(Ino(0)).len(), 3);
    assert_eq!(listed(file), [Pin { ino: other, until: None }]);
    bed.tick();
    bed.tick();
    assert_eq!(pin_of(deep), None);
    assert_eq!(bed.catalog.unpin(&[other, deep]).unwrap(), 1);
    bed.catalog.purge_pins(bed.now()).unwrap();
    assert_eq!(listed(Ino(0)), [Pin { ino: file, until: None }]);
    assert_eq!(bed.catalog.pin(&[Ino(99_999)], None).unwrap_err().kind(), Kind::NotFound);
}
