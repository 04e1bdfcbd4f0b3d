/** The names of secrets with credentials for API servers, which tables of `ISSUERS` name. */
export const clusterCredential: RegExp = /^CLUSTER_CREDENTIAL(?!.*_FILE$)_[A-Z0-9_]{1,64}$/;

/** The names of secrets with credentials for key services. */
export const keyServiceCredential = /^KEY_CREDENTIAL_(?:AWSKMS|GCPKMS|AZUREKMS|HASHIVAULT)$/;

/** The secret with the credential for the CA upstream: a bearer token of Rampart, or a token of Vault. */
export const upstreamCredential = "UPSTREAM_CREDENTIAL";

/**
 * The names of all secrets with credentials: those for API servers and key services, and the one for the CA
 * upstream. Names that end in `_FILE` are left to platforms with files.
 */
export const credentialName = new RegExp(
  `${clusterCredential.source}|${keyServiceCredential.source}|^${upstreamCredential}$`,
);

/** Which keys are secret. */
export const Secrets = {
  /** Whether a key is secret: it is a secret of the Worker, or an environment variable on Node, and never in a file. */
  has: (key: string): boolean =>
    ["KEK", "LOG_READERS", "CONSOLE_TOKENS"].includes(key) || credentialName.test(key),

  /** Whether a value of `CONSOLE_TOKENS` consists of digests, which are not secret and may be in a file. */
  areDigests: (value: unknown): boolean =>
    typeof value === "string" && value.split(",").every((each) => digestPattern.test(each.trim())),
};

/** A token of the console by its SHA-256 in hexadecimal. */
export const digestPattern: RegExp = /^sha256:([0-9a-f]{64})$/;
