// Types of build.mjs, for the tests that need a build.

export declare function build(options?: { readonly quiet?: boolean }): Promise<boolean>;
