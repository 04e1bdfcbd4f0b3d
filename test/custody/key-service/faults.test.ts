import { generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { WrappedKek } from "../../../src/custody/key-service/kek-lease.ts";
import type { KeyServices } from "../../../src/custody/key-service/key-service.ts";
import { createServiceRoot, wrapKek } from "../../../src/custody/key-service/operators-keys.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import { awsFault, awsRootUris, awsUri, playAws } from "../../testkit/key-services/aws-kms.ts";
import { azureRootUri, azureUri, playAzure } from "../../testkit/key-services/azure-key-vault.ts";
import { googleRootUri, googleUri, playGoogle } from "../../testkit/key-services/google-kms.ts";
import type { Conduct, PlayedService } from "../../testkit/key-services/key-service.ts";
import { playedCustody } from "../../testkit/key-services/played-custody.ts";
import {
  playVault,
  vaultFault,
  vaultRootUris,
  vaultUri,
} from "../../testkit/key-services/vault-transit.ts";

const octets = crypto.getRandomValues(new Uint8Array(32));
const clock = () => new Date();

/** What goes wrong, and what the CA says of it. */
type Cell = readonly [
  fault:
    | PlayedService["fault"]
    | Conduct
    | ((answer: Record<string, unknown>) => Record<string, unknown>),
  sentence: string | RegExp,
];

/** By what goes wrong. `undefined` where a service has no such state: the reason stands beside it. */
interface Column {
  readonly play: () => Promise<PlayedService>;
  readonly uri: string;
  readonly rootUri: string;
  /** A KEK is opened. */
  readonly opening: Readonly<Record<string, Cell>>;
  /** The certificate of a root is made. */
  readonly signing: Readonly<Record<string, Cell>>;
}

const google = (status: number, message = "") => ({ status, body: { error: { status, message } } });
const azure = (status: number, code: string) => ({
  status,
  body: { error: { code: "Forbidden", innererror: { code } } },
});
const azureError = (status: number, code: string) => ({ status, body: { error: { code } } });

/** SubjectPublicKeyInfo of a curve that no root has. */
const { publicKey: p521 } = await crypto.subtle.generateKey(
  { name: "ECDSA", namedCurve: "P-521" },
  true,
  ["sign", "verify"],
);
const otherCurve = Buffer.from(await crypto.subtle.exportKey("spki", p521)).toString("base64");
const otherCurvePem = `-----BEGIN PUBLIC KEY-----\n${otherCurve}\n-----END PUBLIC KEY-----\n`;
const { publicKey: secp256k1 } = generateKeyPairSync("ec", { namedCurve: "secp256k1" });
const noCurve = secp256k1.export({ format: "der", type: "spki" }).toString("base64");
const otherCurveJwk = await crypto.subtle.exportKey("jwk", p521);

const bit = (base64: string): string => {
  const flipped = Buffer.from(base64, "base64");
  flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1;
  return flipped.toString("base64");
};
const wrongSignature = "signed with another key than the one of the root's certificate";
const wrongKek = "opened another KEK than the one that was wrapped for cluster.local";
const zeros = Buffer.alloc(32).toString("base64");
const root = "has a key of another type: a root takes EC P-256";

const columns: Readonly<Record<string, Column>> = {
  "AWS KMS": {
    play: () => playAws(),
    uri: awsUri,
    rootUri: `${awsRootUris[0]}`,
    opening: {
      disabled: [awsFault("DisabledException"), "has disabled the key"],
      "pending deletion": [awsFault("KMSInvalidStateException"), "awaits its deletion"],
      "wrong type": [awsFault("InvalidKeyUsageException"), "of another use or type"],
      "wrong region": [awsFault("NotFoundException"), "has no such key in eu-central-1"],
      "another key": [(answer) => ({ ...answer, Plaintext: zeros }), wrongKek],
      permission: [awsFault("AccessDeniedException"), "grant kms:Decrypt"],
      throttled: [awsFault("ThrottlingException"), "throttles its calls"],
      "no reason": [{ status: 500, body: {} }, "failed inside (status 500)"],
      clock: [awsFault("InvalidSignatureException", "Signature not yet current"), "set the clock"],
      "another request": [
        (answer) => ({ ...answer, KeyId: `${answer["KeyId"]}`.replace("1234abcd", "00000000") }),
        "answered for another key",
      ],
      "a request of no key": [(answer) => ({ ...answer, KeyId: "" }), "answered for another key"],
      "credential expired": [awsFault("ExpiredTokenException"), "which has expired"],
    },
    signing: {
      "wrong type": [awsFault("UnsupportedOperationException"), "of another use or type"],
      "wrong curve": [(answer) => ({ ...answer, PublicKey: otherCurve }), root],
      "a curve of no certificate": [(answer) => ({ ...answer, PublicKey: noCurve }), root],
      permission: [awsFault("AccessDeniedException"), "grant kms:GetPublicKey"],
      "wrong signature": [
        (answer) =>
          "Signature" in answer ? { ...answer, Signature: bit(`${answer["Signature"]}`) } : answer,
        wrongSignature,
      ],
    },
  },
  "Google Cloud KMS": {
    play: playGoogle,
    uri: googleUri,
    rootUri: googleRootUri,
    opening: {
      disabled: [
        google(400, "…/cryptoKeyVersions/1 is not enabled, current state is: DISABLED."),
        "has disabled the key",
      ],
      "pending deletion": [
        google(400, "…/1 is not enabled, current state is: DESTROY_SCHEDULED."),
        "it is deleted, or awaits its deletion",
      ],
      "wrong type": [google(400, "… is not usable for this"), "of another use or type"],
      "wrong region": [
        google(404),
        "has no such key at this path, which ends in a version for a root alone",
      ],
      "another key": [
        (answer) => ({ ...answer, plaintext: zeros, plaintextCrc32c: "2324772522" }),
        wrongKek,
      ],
      permission: [google(403), "grant cloudkms.cryptoKeyVersions.useToDecrypt"],
      throttled: [google(429), "throttles its calls"],
      "credential refused": [google(401), "refuses the credential"],
      "no CRC": [
        (answer) => ({ ...answer, plaintextCrc32c: undefined }),
        "whose CRC does not verify",
      ],
      CRC: [(answer) => ({ ...answer, plaintextCrc32c: "1" }), "whose CRC does not verify"],
      "another request": [
        google(400, "Decryption failed: the ciphertext is invalid."),
        "it is of another key, trust domain or KEK id",
      ],
    },
    signing: {
      "wrong curve": [(answer) => ({ ...answer, pem: otherCurvePem }), root],
      permission: [google(403), "grant cloudkms.cryptoKeyVersions.viewPublicKey"],
      "wrong signature": [
        (answer) => ("signature" in answer ? { ...answer, signatureCrc32c: "1" } : answer),
        "whose CRC does not verify",
      ],
      "a digest that was not verified": [
        (answer) => ({ ...answer, verifiedDigestCrc32c: undefined }),
        "received a digest whose CRC does not verify",
      ],
      "another request": [
        (answer) => ("signature" in answer ? { ...answer, name: "projects/p2" } : answer),
        "answered for another key",
      ],
    },
  },
  "Azure Key Vault": {
    play: playAzure,
    uri: azureUri,
    rootUri: azureRootUri,
    opening: {
      disabled: [azure(403, "KeyDisabled"), "has disabled the key"],
      "pending deletion": [azureError(409, "ObjectIsDeletedButRecoverable"), "it is deleted"],
      "wrong type": [azure(403, "KeyOperationForbidden"), "of another use or type"],
      "wrong region": [azureError(404, "KeyNotFound"), "has no such key in this vault"],
      "another key": [
        (answer) => ({ ...answer, value: Buffer.alloc(32).toString("base64url") }),
        wrongKek,
      ],
      permission: [azure(403, "ForbiddenByRbac"), "grant unwrapkey on the key"],
      firewall: [azure(403, "ForbiddenByFirewall"), "this address through its firewall"],
      throttled: [azureError(429, "Throttled"), "throttles its calls"],
      clock: [azure(403, "KeyNotYetValid"), "not valid now"],
      "another request": [
        (answer) => ({ ...answer, kid: `${answer["kid"]}0` }),
        "answered for another key",
      ],
      "credential expired": [azureError(401, "Unauthorized"), "refuses the credential"],
    },
    signing: {
      "wrong type": [
        (answer) => ({ key: { ...Object(answer["key"]), kty: "oct" } }),
        "a root takes EC P-256",
      ],
      "wrong curve": [(answer) => ({ key: { ...Object(answer["key"]), ...otherCurveJwk } }), root],
      permission: [azure(403, "ForbiddenByRbac"), "grant get on the key"],
      "wrong signature": [
        (answer) =>
          "value" in answer
            ? { ...answer, value: Buffer.alloc(64, 1).toString("base64url") }
            : answer,
        wrongSignature,
      ],
      "wrong length": [
        (answer) => ("value" in answer ? { ...answer, value: "AAAA" } : answer),
        "answered a signature of another curve",
      ],
    },
  },
  transit: {
    play: () => playVault(),
    uri: vaultUri,
    rootUri: `${vaultRootUris[0]}`,
    opening: {
      disabled: [
        vaultFault(400, "ciphertext or signature version is disallowed by policy (too old)"),
        "no longer allows this version of the key",
      ],
      "pending deletion": [vaultFault(400, "encryption key not found"), "has no such key"],
      "wrong type": [
        vaultFault(400, "message decryption not supported for key type ecdsa-p256"),
        "has a key of another use or type (status 400)",
      ],
      "a key that signs": [
        vaultFault(400, "'[0].associated_data' provided for non-AEAD cipher suite ecdsa-p256"),
        "has a key of another use or type (status 400)",
      ],
      "wrong mount": [vaultFault(404), "has no such key or no transit engine at this mount"],
      "another key": [() => ({ data: { plaintext: zeros } }), wrongKek],
      permission: [vaultFault(403, "permission denied"), "grant update on transit/decrypt/rampart"],
      throttled: [vaultFault(429), "throttles its calls"],
      "another request": [
        vaultFault(400, "cipher: message authentication failed"),
        "it is of another key, trust domain or KEK id",
      ],
      "credential expired": [
        vaultFault(403, "permission denied", "invalid token"),
        "refuses the credential, which is wrong or has expired",
      ],
    },
    signing: {
      disabled: [
        vaultFault(
          400,
          "requested version for signing is less than the minimum encryption key version",
        ),
        "no longer allows this version of the key",
      ],
      "wrong type": [
        vaultFault(400, "key type aes256-gcm96 does not support signing"),
        "a root ecdsa-p256, ecdsa-p384 or RSA",
      ],
      "wrong curve": [
        (answer) =>
          JSON.stringify(answer).includes("public_key")
            ? { data: { latest_version: 1, keys: { 1: { public_key: otherCurvePem } } } }
            : answer,
        root,
      ],
      "a key that wraps": [
        (answer) => ({ data: { ...Object(answer["data"]), keys: { 1: 1795759281 } } }),
        root,
      ],
      "a key of Ed25519": [
        (answer) => ({
          data: {
            ...Object(answer["data"]),
            keys: { 1: { public_key: "lXNDuElkQguCS9pVPrLOpA==" } },
          },
        }),
        root,
      ],
      "a version that is missing": [
        (answer) => ({ data: { ...Object(answer["data"]), keys: { 2: {} } } }),
        "has no version 1 of the key",
      ],
      "a server that takes TLS alone": [
        vaultFault(400, "Client sent an HTTP request to an HTTPS server."),
        "add ?tls to its URI",
      ],
      permission: [vaultFault(403, "permission denied"), "grant read on transit/keys/root"],
      "wrong signature": [
        (answer) =>
          JSON.stringify(answer).includes("vault:")
            ? { data: { signature: `vault:v1:${zeros}` } }
            : answer,
        wrongSignature,
      ],
      "another request": [
        (answer) =>
          JSON.stringify(answer).includes("vault:")
            ? { data: { signature: `vault:v2:${zeros}` } }
            : answer,
        "answered no signature of this version of the key",
      ],
    },
  },
};

const ofEvery: Readonly<Record<string, Cell>> = {
  "a redirect": ["redirects", "redirects elsewhere (status 307)"],
  "an endless answer": ["never ends", "answered too much"],
  "no answer": ["is away", "did not answer"],
  "no JSON": ["answers HTML", /answered (?:without|for another key)/],
};

const secrets = /secret|hvs\.|PRIVATE|ya29|eyJ/;

describe.each(Object.entries(columns))("%s", (_, { play, uri, rootUri, opening, signing }) => {
  async function start(): Promise<[PlayedService, KeyServices]> {
    const service = await play();
    return [service, playedCustody(service).keyServices];
  }

  function apply(service: PlayedService, fault: Cell[0]): void {
    if (typeof fault === "string") service.conduct = fault;
    else if (typeof fault === "function") service.forge = fault;
    else service.fault = fault;
  }

  test.each(Object.entries({ ...opening, ...ofEvery }))("a KEK: %s", async (_, [fault, says]) => {
    const [service, keyServices] = await start();
    const kek = await wrapKek({ id: "k1", octets }, uri, "cluster.local", keyServices);
    apply(service, fault);
    const work = WrappedKek.open(kek, "cluster.local", keyServices);
    const said = await work.then(() => "it worked", String);
    expect(said).toMatch(says);
    expect(said).toContain(uri);
    expect(said).not.toMatch(secrets);
  });

  test.each(Object.entries({ ...signing, ...ofEvery }))("a root: %s", async (_, [fault, says]) => {
    const [service, keyServices] = await start();
    // A grant works before the service does not.
    await createServiceRoot(keyServices(rootUri), clusterLocal, 1e8, clock());
    apply(service, fault);
    const work = createServiceRoot(keyServices(rootUri), clusterLocal, 1e8, clock());
    const said = await work.then(() => "it worked", String);
    expect(said).toMatch(says);
    expect(said).not.toMatch(secrets);
  });
});

const clockSaid = "set the clock of this machine (status 400)";

test.each([
  [
    "Google",
    playGoogle,
    googleUri,
    400,
    "Token must be short-lived. Check your iat and exp",
    clockSaid,
  ],
  ["Azure", playAzure, azureUri, 400, "AADSTS700024: not within its valid time range.", clockSaid],
  [
    "Google",
    playGoogle,
    googleUri,
    400,
    "Invalid JWT Signature.",
    "refuses the credential, which is wrong",
  ],
  ["Azure", playAzure, azureUri, 503, "", "failed inside (status 503)"],
  ["Google", playGoogle, googleUri, 429, "", "throttles its calls (status 429)"],
] as const)("%s gives no grant", async (_, play, uri, status, error_description, sentence) => {
  const service = await play();
  const { keyServices } = playedCustody(service);
  service.fault = { status, body: { error: "invalid_grant", error_description } };
  const said = await wrapKek({ id: "k1", octets }, uri, "cluster.local", keyServices).then(
    () => "it worked",
    String,
  );
  expect(said).toContain(sentence);
});
