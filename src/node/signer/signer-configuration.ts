import * as z from "zod/mini";
import { ConfigurationForm, NameForm } from "../../config/form.ts";
import { globList, globs } from "../../foundation/globs.ts";
import { Duration, parsedText } from "../../foundation/text.ts";
import { ServiceAccount } from "../../pki/spiffe-id.ts";
import {
  accessKeys,
  apiServerKeys,
  apiServerPlaceOf,
  type Environment,
  listenAddress,
  upstreamAccessOf,
} from "../files/places.ts";

/** The types of key that a pod may ask for, by Kubernetes' names. */
export const podKeyTypes = [
  "ECDSAP256",
  "ECDSAP384",
  "ECDSAP521",
  "ED25519",
  "RSA3072",
  "RSA4096",
] as const;

/** A type of key that a pod may have. */
export type PodKeyType = (typeof podKeyTypes)[number];

const namespaceForm = /^[a-z0-9*-]{1,63}$/;
const dnsForm = /^[a-z0-9.*-]{1,253}$/;

const podPolicy = z.strictObject({
  namespaces: globs(namespaceForm, "namespace"),
  key_types: z._default(
    z.readonly(z.array(z.enum(podKeyTypes)).check(z.minLength(1))),
    podKeyTypes,
  ),
  /** The signer by name (`CertSigner`) of the CA; empty for its own authorities. */
  authority: z._default(z.string().check(z.regex(/^[a-z0-9.-]{0,63}$/, "must be a name")), ""),
});

/** The rules for certificates that a signer issues to pods. */
export type PodPolicy = z.output<typeof podPolicy>;

const servicePolicy = z.strictObject({
  account: NameForm.account,
  dns_names: globList(dnsForm, "DNS name").check(z.minLength(1)),
});

/** The DNS names that an account may have in a serving certificate. */
export type ServicePolicy = z.output<typeof servicePolicy>;

const certManagerPolicy = z
  .strictObject({
    /** The namespaces of the requests, as globs. */
    namespaces: globs(namespaceForm, "namespace"),
    /** The account of the requests; absent for all accounts, each of which may have its own SPIFFE ID. */
    requester: z.optional(NameForm.account),
    /** The namespaces whose SPIFFE IDs the requester may have. */
    identities: z._default(globList(namespaceForm, "namespace"), []),
    dns_names: z._default(globList(dnsForm, "DNS name"), []),
  })
  .check(
    z.refine(({ requester, identities }) => requester !== undefined || identities.length === 0, {
      path: ["requester"],
      error: "is required with identities: name the account that is trusted with them",
    }),
  );

/** The names that the CertificateRequests of some namespaces may have. */
export type CertManagerPolicy = z.output<typeof certManagerPolicy>;

const hour = 3600;

const signer = z
  .strictObject({
    name: NameForm.signer,
    maximum_lifetime: z.prefault(Duration.seconds, "24h"),
    /** Absent if it answers no PodCertificateRequest. */
    pods: z.optional(podPolicy),
    /** Empty if it answers no CertificateSigningRequest. */
    services: z._default(z.array(servicePolicy).check(z.maxLength(256)), []),
    /** Empty if it answers no CertificateRequest of cert-manager. */
    cert_manager: z._default(z.array(certManagerPolicy).check(z.maxLength(256)), []),
  })
  .check(
    z.refine(({ maximum_lifetime }) => maximum_lifetime >= hour, {
      path: ["maximum_lifetime"],
      error: "must be at least 1h, which Kubernetes demands",
    }),
    z.refine((each) => each.pods || each.services.length > 0 || each.cert_manager.length > 0, {
      path: ["pods"],
      error: "is required without services and cert_manager: a signer must have something to sign",
    }),
  );

const signers = z.array(signer).check(
  z.minLength(1, "must name at least one signer"),
  z.maxLength(16),
  z.refine(
    (list) => new Set(list.map(({ name }) => name)).size === list.length,
    "must not use a name twice",
  ),
);

const schema = z.strictObject({
  ...accessKeys,
  SIGNERS: signers,
  // Names of Leases have the same form as those of ServiceAccounts.
  LEASE: z.prefault(
    parsedText(ServiceAccount.parseName, "must be <namespace>/<name of a Lease>"),
    "istio-system/rampart-signer",
  ),
  ...apiServerKeys,
  MONITORING_LISTEN: z.prefault(listenAddress, ":15014"),
});

/** Parses the configuration of `rampart signer`. */
export const SignerConfiguration = {
  /** The names of all keys, in the order of the table in docs/how-to/signers.md. */
  keys: Object.keys(schema.shape),

  /** The keys whose changes only a restart applies. */
  restartKeys: ["MONITORING_LISTEN"],

  /**
   * Parses the configuration of the signer.
   * @param environment Where a pod finds its API server.
   * @throws ConfigurationError with every error.
   */
  parse(values: Readonly<Record<string, unknown>>, environment: Environment) {
    const read = ConfigurationForm.parse(schema, values);
    return {
      ...upstreamAccessOf(read),
      signers: read.SIGNERS.map(({ maximum_lifetime, ...each }) => ({
        ...each,
        maximumSeconds: maximum_lifetime,
      })),
      lease: read.LEASE,
      apiServer: apiServerPlaceOf(read, environment),
      monitoringListen: read.MONITORING_LISTEN,
    };
  },
};

/** The configuration of `rampart signer`. Its only secrets, two tokens, are in files. */
export type SignerConfiguration = Readonly<ReturnType<typeof SignerConfiguration.parse>>;

/** A signer name of Kubernetes, and the requests that it answers. */
export type SignerName = SignerConfiguration["signers"][number];
