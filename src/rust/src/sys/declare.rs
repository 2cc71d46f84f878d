// SPDX-License-Identifier: MIT
//! Macros that declare what a C header declares. In tests they also make the lists that are compared with the header,
//! so that nothing is written twice.

/// `NAME: TYPE = VALUE;`: macros and enumerators.
macro_rules! c_constants {
    ($($name:ident: $ty:ty = $value:expr;)*) => {
        $(pub const $name: $ty = $value;)*

        #[cfg(test)]
        pub(super) fn constants() -> Vec<(&'static str, String)> {
            vec![$((stringify!($name), $name.to_string())),*]
        }
    };
}

/// Objects that only pointers lead to.
macro_rules! c_objects {
    ($($name:ident),*) => {
        $(
            #[repr(C)]
            pub struct $name {
                _private: [u8; 0],
                _not_send_sync_unpin: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
            }
        )*
    };
}

/// `struct NAME { FIELD: TYPE, }`.
macro_rules! c_structs {
    ($(struct $name:ident { $($field:ident: $ty:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct $name { $(pub $field: $ty,)* }
        )*

        #[cfg(test)]
        pub(super) fn structs() -> Vec<super::same_as_c::Struct> {
            vec![$({
                let made = std::mem::MaybeUninit::<$name>::uninit();
                let at = made.as_ptr();
                super::same_as_c::Struct {
                    name: stringify!($name),
                    size: std::mem::size_of::<$name>(),
                    // SAFETY: addresses of fields of a struct that is there; nothing is read
                    fields: vec![$((stringify!($field), stringify!($ty), unsafe {
                        std::ptr::addr_of!((*at).$field) as usize - at as usize
                    })),*],
                }
            }),*]
        }
    };
}

/// `fn NAME(ARGUMENT: TYPE, ...) -> TYPE;`.
macro_rules! c_functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        extern "C" {
            $(pub fn $name($($arg: $ty),*) $(-> $ret)?;)*
        }

        #[cfg(test)]
        pub(super) fn functions() -> Vec<super::same_as_c::Function> {
            vec![$(super::same_as_c::Function {
                name: stringify!($name),
                args: vec![$(stringify!($ty)),*],
                result: concat!($(stringify!($ret))?),
            }),*]
        }
    };
}
