/** Why an import judges a case of x509-limbo otherwise, by the beginning of its line: its name, and what it says. */
const differences: readonly (readonly [line: RegExp, reason: string])[] = [
  [/^webpki::(?:cn|san|eku)::\S+: taken$/, "the leaf's names or usages, not the CA"],
  [/^webpki::(?:malformed-aia|v1-cert|ee-\S+|ca-as-leaf|forbidden-\S+-leaf): taken$/, "the leaf"],
  [/^rfc5280::(?:eku|san)::\S+: taken$/, "the leaf's names or usages"],
  [/^rfc5280::(?:serial::\S+|validity::expired-leaf|aki::leaf-missing-aki): taken$/, "the leaf"],
  [
    /^rfc5280::(?:ee-\S+|leaf-\S+|ca-as-leaf-\S+|unknown-critical-extension-ee): taken$/,
    "the leaf",
  ],
  [/^rfc5280::(?:duplicate-extensions|ica-ku-keycertsign): taken$/, "the leaf"],
  [/^rfc5280::mismatching-signature-algorithm: taken$/, "a root that no path needs"],
  [
    /^rfc5280::nc::(?:permitted|excluded|not-allowed|restrictive|nc-\S+)\S*: taken$/,
    "the leaf's names",
  ],
  [/^cve::cve-2025-61727\S*: taken$/, "a wildcard in the leaf's names"],
  [/^pathological::nc-dos-\d: taken$/, "the leaf's many names"],
  [/^crl::\S+: taken$/, "a CRL, of which the case makes no part of the import"],
  [/^pathlen::max-chain-depth-\d-exhausted: taken$/, "a bound that the verifier of the case sets"],
  [/^rfc5280::nc::invalid-\S+: taken$/, "a malformed constraint on names that no workload has"],
  [
    /^rfc5280::(?:aki::(?:intermediate|cross)\S+|ski::\S+|root-non\S+): taken$/,
    "a form that no verifier of a mesh demands",
  ],
  [
    /^webpki::(?:aki::root\S+|forbidden-rsa-not-divisible-by-8-in-root): taken$/,
    "a rule for public CAs",
  ],
  [/^cve::cve-2024-0567: too many certificates$/, "more certificates than a CA's files may have"],
  [
    /^pathlen::self-issued-certs-pathlen: .* path length of 1 /,
    "Go counts self-issued certificates",
  ],
  [/^rfc5280::nc::\S+: .* names of rare kinds, which Go refuses$/, "Go refuses such constraints"],
  [
    /^rfc5280::validity::notafter-\S+: .* has expired at /,
    "the last second of notAfter is the leaf's last",
  ],
  [
    /^online::(?:microsoft|bing)\.com: .* excludes server or client authentication/,
    "its leaves are no workload's",
  ],
];

/** The lines among these that have a reason; a reason without a line is named in the place of one. */
export function explained(lines: readonly string[]): readonly string[] {
  const unused = differences.filter(([pattern]) => !lines.some((line) => pattern.test(line)));
  return [
    ...lines.filter((line) => differences.some(([pattern]) => pattern.test(line))),
    ...unused.map(([pattern, reason]) => `no case any more of ${pattern}: ${reason}`),
  ];
}
