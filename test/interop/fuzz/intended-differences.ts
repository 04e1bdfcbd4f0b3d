/** A difference that stays, and why it does no harm. */
interface IntendedDifference {
  /** The names of comparisons. */
  readonly of: readonly string[];
  readonly is: RegExp;
  readonly because: string;
}

/** Go's errors about names, keys and extensions that Rampart does not look into. */
const parts = [
  "RDNSequence",
  "OID",
  "public key|subjectPublicKey|elliptic curve|ECDSA|RSA|Ed25519|point|parameters",
  "basic constraints|key usage|key identifier|CRL distribution|certificate policies|authority info",
  "subject alternative name|SAN|cannot parse URI|onstraint",
  "serial number",
].join("|");

/** A difference that is not here is a fault. */
export const intendedDifferences: readonly IntendedDifference[] = [
  {
    of: ["CSR"],
    is: /^accepted, refused by Go beside the key/,
    because: "Rampart takes the key alone, so subject and attributes may hold any DER",
  },
  {
    of: ["CSR"],
    is: /^refused \(csr-malformed\)/,
    because: "a CSR must be DER to its last octet; Go leaves what follows the fields that it knows",
  },
  {
    of: ["CSR"],
    is: /^refused \((subject-key-unacceptable|csr-signature-algorithm-unacceptable)\)/,
    because: "the key policy has fewer curves, lengths and hashes than Go",
  },
  {
    of: ["certificate"],
    is: new RegExp(`^accepted, refused by Go \\([^(]*(${parts})`),
    because: "this reader takes names, key and extensions as octets; whoever uses one reads it",
  },
  {
    of: ["certificate", "root"],
    is: /^refused \((?!OpenSSL)(?!subject-key)/,
    because: "certificates must be DER without fields that RFC 5280 lacks; Go forgives some",
  },
  {
    of: ["root"],
    is: /^refused \((OpenSSL|subject-key-unacceptable)/,
    because: "a root must be a CA's for OpenSSL as well, and have a key that the policy allows",
  },
  {
    of: ["client certificate"],
    is: new RegExp(`^accepted, refused by Go \\([^(]*(${parts})`),
    because: "an own authority has signed it, which signs nothing that the linter refuses",
  },
  {
    of: ["client certificate"],
    is: /^refused \((form|subject|renewal|authority)\)/,
    because: "a credential is a leaf of RFC 5280 with one SPIFFE ID; Go verifies other leaves too",
  },
];
