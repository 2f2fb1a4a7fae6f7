// Types of client-types.mjs, for the tests.

export interface OpenapiOperation {
  readonly name: string;
  readonly operation: {
    readonly requestBody?: {
      readonly content: Readonly<Record<string, { readonly schema: { readonly $ref?: string } }>>;
    };
  };
}

export declare function clientTypes(document: object): string;

export declare function operationsOf(document: object): OpenapiOperation[];
