/** A `rampart.toml` for verbs on a store of files: one issuer, and these lines. */
export const storeToml = (store: string, ...lines: readonly string[]): string =>
  [
    ...lines,
    `STORE_DIRECTORY = ${JSON.stringify(store)}`,
    '[[ISSUERS]]\nissuer = "https://a.test"',
  ].join("\n");
