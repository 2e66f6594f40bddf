//! Files that NumPy 2.4 and the safetensors package wrote, byte for byte.

/// `numpy.array([True, False, True])`
pub(crate) const BOOL: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }                                                            \n\x01\x00\x01";

/// `numpy.array([[1, -2], [3, -2**31]], numpy.int32)`
pub(crate) const I32: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }                                                          \n\x01\x00\x00\x00\xfe\xff\xff\xff\x03\x00\x00\x00\x00\x00\x00\x80";

/// `numpy.array([2**32 - 1], numpy.uint32)`
pub(crate) const U32: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<u4', 'fortran_order': False, 'shape': (1,), }                                                            \n\xff\xff\xff\xff";

/// `numpy.array(-2**63, numpy.int64)`
pub(crate) const I64: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (), }                                                              \n\x00\x00\x00\x00\x00\x00\x00\x80";

/// `numpy.array([1.5, -0.0, 65504], numpy.float16)`
pub(crate) const F16: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }                                                            \n\x00>\x00\x80\xff{";

/// A signalling NaN with a payload, a negative quiet NaN, and 1.5, of shape (1, 3).
pub(crate) const F32: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }                                                          \n\x01\x00\x80\x7f\x00\x00\xc0\xff\x00\x00\xc0?";

/// `numpy.zeros((2, 0, 3), numpy.float32)`
pub(crate) const EMPTY: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0, 3), }                                                       \n";

/// `numpy.arange(6, dtype='>i4').reshape(2, 3)`
pub(crate) const BIG_ENDIAN: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '>i4', 'fortran_order': False, 'shape': (2, 3), }                                                          \n\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x05";

/// `numpy.asfortranarray(numpy.arange(6, dtype='<f4').reshape(2, 3))`
pub(crate) const FORTRAN: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }                                                           \n\x00\x00\x00\x00\x00\x00@@\x00\x00\x80?\x00\x00\x80@\x00\x00\x00@\x00\x00\xa0@";

/// `numpy.asfortranarray(numpy.arange(8, dtype='>f2').reshape(2, 2, 2))`
pub(crate) const FORTRAN_BIG_ENDIAN: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '>f2', 'fortran_order': True, 'shape': (2, 2, 2), }                                                        \n\x00\x00D\x00@\x00F\x00<\x00E\x00B\x00G\x00";

/// `numpy.array([7], numpy.int32)`, in version 2 of the format.
pub(crate) const VERSION_2: &[u8] = b"\x93NUMPY\x02\x00t\x00\x00\x00{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }                                                          \n\x07\x00\x00\x00";

/// `numpy.array([7], numpy.int32)`, in version 3 of the format.
pub(crate) const VERSION_3: &[u8] = b"\x93NUMPY\x03\x00t\x00\x00\x00{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }                                                          \n\x07\x00\x00\x00";

/// `numpy.ones(2, ml_dtypes.bfloat16)`
pub(crate) const BFLOAT16: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }                                                            \n\x80?\x80?";

/// `numpy.zeros(1, [('a', '<f4'), ('b', '<i4')])`
pub(crate) const FIELDS: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,), }                                     \n\x00\x00\x00\x00\x00\x00\x00\x00";

/// `numpy.savez(file, w=numpy.array([1.5, -2], numpy.float32), n=numpy.array(3, numpy.int32))`
pub(crate) const NPZ: &[u8] = b"PK\x03\x04-\x00\x00\x00\x00\x00\x00\x00!\x00\xd6CK\x05\xff\xff\xff\xff\xff\xff\xff\xff\x05\x00\x14\x00w.npy\x01\x00\x10\x00\x88\x00\x00\x00\x00\x00\x00\x00\x88\x00\x00\x00\x00\x00\x00\x00\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }                                                            \n\x00\x00\xc0?\x00\x00\x00\xc0PK\x03\x04-\x00\x00\x00\x00\x00\x00\x00!\x00[\xba\xd3;\xff\xff\xff\xff\xff\xff\xff\xff\x05\x00\x14\x00n.npy\x01\x00\x10\x00\x84\x00\x00\x00\x00\x00\x00\x00\x84\x00\x00\x00\x00\x00\x00\x00\x93NUMPY\x01\x00v\x00{'descr': '<i4', 'fortran_order': False, 'shape': (), }                                                              \n\x03\x00\x00\x00PK\x01\x02-\x03-\x00\x00\x00\x00\x00\x00\x00!\x00\xd6CK\x05\x88\x00\x00\x00\x88\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\x00\x00\x00\x00w.npyPK\x01\x02-\x03-\x00\x00\x00\x00\x00\x00\x00!\x00[\xba\xd3;\x84\x00\x00\x00\x84\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\xbf\x00\x00\x00n.npyPK\x05\x06\x00\x00\x00\x00\x02\x00\x02\x00f\x00\x00\x00z\x01\x00\x00\x00\x00";

/// `numpy.savez_compressed(file, w=numpy.zeros((4, 8), numpy.float32), b=numpy.array([True]))`
pub(crate) const NPZ_COMPRESSED: &[u8] = b"PK\x03\x04-\x00\x00\x00\x08\x00\x00\x00!\x00\xfcJ\xd9`\xff\xff\xff\xff\xff\xff\xff\xff\x05\x00\x14\x00w.npy\x01\x00\x10\x00\x00\x01\x00\x00\x00\x00\x00\x00I\x00\x00\x00\x00\x00\x00\x00\x9b\xec\x17\xea\x1b\x10\xc9\xc8P\xc6P\xad\x9e\x92Z\x9c\\\xa4n\xa5\xa0n\x93f\xa2\xae\xa3\xa0\x9e\x96_TR\x94\x98\x17\x9f_\x94\x92\n\x12wK\xcc)N\x05\x8a\x17g$\x16\xa4\x02\xf9\x1a&:\n\x16\x9a:\n\xb5\nd\x03.\x86\x01\x06\x00PK\x03\x04-\x00\x00\x00\x08\x00\x00\x00!\x00\xba4.s\xff\xff\xff\xff\xff\xff\xff\xff\x05\x00\x14\x00b.npy\x01\x00\x10\x00\x81\x00\x00\x00\x00\x00\x00\x00E\x00\x00\x00\x00\x00\x00\x00\x9b\xec\x17\xea\x1b\x10\xc9\xc8P\xc6P\xad\x9e\x92Z\x9c\\\xa4n\xa5\xa0^\x93d\xa8\xae\xa3\xa0\x9e\x96_TR\x94\x98\x17\x9f_\x94\x92\n\x12wK\xcc)N\x05\x8a\x17g$\x16\xa4\x02\xf9\x1a\x86:\x9a:\n\xb5\n\x14\x00.F\x00PK\x01\x02-\x03-\x00\x00\x00\x08\x00\x00\x00!\x00\xfcJ\xd9`I\x00\x00\x00\x00\x01\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\x00\x00\x00\x00w.npyPK\x01\x02-\x03-\x00\x00\x00\x08\x00\x00\x00!\x00\xba4.sE\x00\x00\x00\x81\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\x80\x00\x00\x00b.npyPK\x05\x06\x00\x00\x00\x00\x02\x00\x02\x00f\x00\x00\x00\xfc\x00\x00\x00\x00\x00";

/// A tensor of every dtype and an empty one, by `safetensors.numpy.save` with metadata `{'format': 'np'}`.
pub(crate) const SAFETENSORS: &[u8] = b"\xe0\x01\x00\x00\x00\x00\x00\x00{\"__metadata__\":{\"format\":\"np\"},\"big\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},\"e\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[8,8]},\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},\"n\":{\"dtype\":\"U32\",\"shape\":[],\"data_offsets\":[16,20]},\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[20,24]},\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[24,28]},\"half\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[28,30]},\"mask\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[30,33]}}\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\xc0?\x00\x00\x00\xc0\x07\x00\x00\x00\xf9\xff\xff\xff\x80?\x80?\x00>\x01\x00\x01";
