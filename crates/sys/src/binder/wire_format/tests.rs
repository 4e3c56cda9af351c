use super::*;

fn utf16(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

// Verifies LOOKUP-7.
#[test]
fn every_format_reads_what_it_writes() {
    assert!(WireFormat::all().len() >= 9);
    for format in WireFormat::all() {
        let name = &format.name;
        for code in format.lookup_codes() {
            let question = format.parse_manager_request(code, &format.lookup_request("activity").data);
            assert_eq!(question, Some(ManagerRequest::Lookup { name: utf16("activity") }), "{name}");
            for (handle, object) in [(Some(7), Object::Handle(7)), (None, Object::Null)] {
                let answer = format.lookup_answer(code, handle);
                assert_eq!(format.read_service(&answer.data), Some(object), "{name} {code}");
            }
        }
        let added = format.parse_manager_request(format.add, &format.add_request("window", 5).data);
        let object = Object::Own(5);
        assert_eq!(added, Some(ManagerRequest::Add { name: utf16("window"), object, allow_isolated: true }), "{name}");
        let index = (format.list_style != ListStyle::Array).then_some(3);
        assert_eq!(
            format.parse_manager_request(format.list, &format.list_request(3).data),
            Some(ManagerRequest::List { index }),
            "{name}"
        );
        let names = ["activity".to_owned(), "window".to_owned()];
        let count = if index.is_some() { 1 } else { 2 };
        assert_eq!(format.read_names(&format.names_answer(&names[..count]).data).unwrap(), names[..count], "{name}");
    }
}

// Verifies LOOKUP-7.
#[test]
fn codes_do_not_overlap() {
    for format in WireFormat::all() {
        let mut codes = format.lookup_codes();
        codes.push(format.add);
        codes.extend(format.clients.iter().chain(&format.readonly));
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count, "{}", format.name);
        assert!(format.readonly.contains(&format.list), "{}", format.name);
    }
}

#[test]
fn requests_have_the_layout_of_their_release() {
    let five = WireFormat::named("android-5").unwrap().lookup_request("a").data;
    assert_eq!(five[..8], [0, 0, 0, 0x80, 26, 0, 0, 0]);
    assert_eq!(five.len(), 4 + 4 + 56 + 8);
    let sixteen = WireFormat::named("android-16").unwrap();
    let request = sixteen.lookup_request("a").data;
    assert_eq!(request[4..16], [255, 255, 255, 255, b'T', b'S', b'Y', b'S', 26, 0, 0, 0]);
    assert_eq!(sixteen.check_code(), 3);
    assert!(request.ends_with(&sixteen.cache_key("a")));
    // Code 3 registers a service up to 14 and looks one up in 16.
    assert_eq!(WireFormat::named("android-14").unwrap().add, 3);
}

#[test]
fn profiles_for_the_driver_match_the_format() {
    let five = WireFormat::named("android-5").unwrap();
    let text = five.transparent_profile();
    assert!(text.starts_with("lookup=1,2 readonly=4,1599098439,"), "{text}");
    assert!(text.contains(" volatile=4 header=1a00000061006e00"), "{text}");
    assert!(!text.contains("clients") && !text.contains("tail"), "{text}");
    let sixteen = WireFormat::named("android-16").unwrap();
    let text = sixteen.transparent_profile();
    assert!(text.starts_with("lookup=1,3,2,4 readonly=6,"), "{text}");
    let forms = " clients=14 reply=00000000 tail=00000000,03000000,0c000000,3f000000 \
                 reply=0000000001000000000000000100000024000000 \
                 tail=0000000000000000,0300000000000000,0c00000000000000,3f00000000000000";
    assert!(text.ends_with(forms), "{text}");
    let profile = sixteen.cooperative_profile();
    assert_eq!((profile.lookup_codes, profile.volatile_size, profile.header_size), (0b1_1110, 8, 64));
    assert_eq!(profile.header[..4], *b"TSYS");
}

// Verifies LOOKUP-7.
#[test]
fn a_union_has_the_layout_of_its_release() {
    let sixteen = WireFormat::named("android-16").unwrap();
    let answer = sixteen.lookup_answer(4, Some(7));
    assert_eq!(answer.offsets, [20]);
    assert_eq!(answer.data.len(), 52);
    let numbers = |bytes: &[u8]| bytes.chunks(4).map(|bytes| bytes[0]).collect::<Vec<_>>();
    assert_eq!(numbers(&answer.data[..20]), [0, 1, 0, 1, 36]);
    assert_eq!(numbers(&answer.data[44..]), [12, 0]);
    // The second member of the union is an accessor, not a service.
    let mut accessor = answer.data.clone();
    accessor[8] = 1;
    assert_eq!(sixteen.read_service(&accessor), None);
    // In 15 a union may hold the binder alone.
    let fifteen = WireFormat::named("android-15").unwrap();
    let alone = [&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..], &answer.data[20..48]].concat();
    assert_eq!(fifteen.read_service(&alone), Some(Object::Handle(7)));
    assert!(fifteen.transparent_profile().contains(" reply=000000000100000000000000 tail=00000000,"));
}

#[test]
fn other_requests_are_not_questions() {
    let format = WireFormat::named("android-11").unwrap();
    let request = format.lookup_request("a").data;
    assert_eq!(format.parse_manager_request(9, &request), None, "another function");
    assert_eq!(format.parse_manager_request(1, &request[..request.len() - 4]), None, "cut off");
    let older = WireFormat::named("android-10").unwrap();
    assert_eq!(format.parse_manager_request(1, &older.lookup_request("a").data), None, "without the marker");
    assert_eq!(format.read_service(&[1, 0, 0, 0]), None, "an exception");
}
