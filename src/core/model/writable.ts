/** For whoever is still building it: a value that is handed on is for reading only. */
export type Writable<T> = { -readonly [K in keyof T]: T[K] };
