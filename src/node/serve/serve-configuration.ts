import * as z from "zod/mini";
import { Configuration } from "../../config/configuration.ts";
import { ConfigurationForm } from "../../config/form.ts";
import { logKeys } from "../../config/optional-parts.ts";
import { keyServiceCredential } from "../../config/secrets.ts";
import { DnsName } from "../../foundation/addresses.ts";
import { ConfigurationError } from "../../foundation/errors.ts";
import { SpiffeId } from "../../pki/spiffe-id.ts";
import { SmallFile } from "../../program/files/small-file.ts";
import { credentialFileName } from "../files/configuration-file.ts";
import { credentialInFile } from "../files/credential-file.ts";
import { type Environment, filePath, listenAddress } from "../files/places.ts";
import { certificateFilesOf, servingKeys } from "../serving-keys.ts";
import {
  logPlaceOf,
  propagationOf,
  type StorePlace,
  storeKeys,
  storeKindOf,
  storePlaceOf,
} from "../stores/store-place.ts";
import type { ServingNames } from "./serving-certificate.ts";

/** The DNS names of a mesh's CA (docs/explanation/istio.md#the-call). */
const istiodNames = ["istiod.istio-system.svc", "istiod.istio-system.svc.cluster.local"];

const perMinute = z.int().check(z.minimum(1), z.maximum(10_000_000));

/** A name of the serving certificate. */
const servingName = z
  .string()
  .check(
    z.refine(
      (name) => DnsName.is(name) || SpiffeId.isWorkload(name),
      "must be the name of a host, in lower case, or a SPIFFE ID",
    ),
  );

/** The keys of `rampart serve` alone. docs/reference/serve.md describes them. */
const serveSchema = z.strictObject({
  ...storeKeys,
  IMPORT_DIRECTORY: z.optional(filePath),
  PLAINTEXT_LISTEN: z.optional(listenAddress),
  SERVING_NAMES: z._default(
    z.array(servingName).check(z.minLength(1), z.maxLength(32)),
    istiodNames,
  ),
  CALLER_QUOTA: z._default(perMinute, 600),
  ISSUER_QUOTA: z._default(perMinute, 30_000),
  ...servingKeys,
});

/** Parses configurations. */
export const ServeConfiguration = {
  /** The names of these keys, in the order of the table in docs/reference/serve.md. */
  keys: Object.keys(serveSchema.shape) satisfies readonly string[],

  /**
   * The keys whose changes only a restart applies: those of ports and stores, those that other machines rely on, and
   * those that decide how authorities are opened. docs/how-to/reload.md explains each.
   */
  restartKeys: [
    "TRUST_DOMAIN",
    "AUTHORITY_ROOT",
    "PROPAGATION_INTERVAL",
    "CRL",
    "JWT_ISSUER",
    ...Object.keys(logKeys),
    "KEK_LEASE",
    "KEK",
    ...Object.keys(storeKeys),
    "IMPORT_DIRECTORY",
    "PLAINTEXT_LISTEN",
    "LISTEN",
    "MONITORING_LISTEN",
    "DIAGNOSTIC_RPCS",
  ] satisfies readonly string[],

  /**
   * Parses the keys of every platform and those of `rampart serve`.
   *
   * @param environment The variables by which a pod finds its API server.
   * @throws ConfigurationError
   */
  parse(values: Readonly<Record<string, unknown>>, environment: Environment = {}) {
    const [own, others] = ConfigurationForm.partition(values, (key) =>
      ServeConfiguration.keys.includes(key),
    );
    const [files, shared] = ConfigurationForm.partition(others, (key) =>
      credentialFileName.test(key),
    );
    const given = Object.keys(own).filter((key) => own[key] !== undefined);
    const { ca, serving, credentialFiles } = ConfigurationForm.together({
      ca: () => Configuration.parse(shared, propagationOf[storeKindOf(own)]),
      serving: () => {
        const form = ConfigurationForm.parse(serveSchema, own);
        const store = () => storePlaceOf(form, given, environment);
        return {
          form,
          ...ConfigurationForm.together({
            store,
            certificateFiles: () => certificateFilesOf(form),
          }),
        };
      },
      credentialFiles: () => ConfigurationForm.parse(z.record(z.string(), filePath), files),
    });
    const { form, store, certificateFiles } = serving;
    const { clusterCredentials, logPlace } = ConfigurationForm.together({
      oneReader: () => requireOneReader(store, ca),
      logPlace: () => logPlaceOf(form, store, ca.log?.origin, environment),
      plugged: () => requirePlugged(form.IMPORT_DIRECTORY, ca),
      clusterCredentials: () => withFiles(ca.clusterCredentials, credentialFiles),
    });
    return {
      ca: { ...ca, clusterCredentials },
      store,
      /** Where the issuance log is in a bucket. */
      logPlace,
      /** The directory from which a plugged-in CA is imported whenever it changes. */
      importDirectory: form.IMPORT_DIRECTORY,
      listen: form.LISTEN,
      plaintextListen: form.PLAINTEXT_LISTEN,
      monitoringListen: form.MONITORING_LISTEN,
      servingNames: servingNamesOf(form.SERVING_NAMES, ca),
      certificateFiles,
      diagnosticRpcs: form.DIAGNOSTIC_RPCS,
      limits: form.LIMITS,
      perMinute: { caller: form.CALLER_QUOTA, issuer: form.ISSUER_QUOTA },
      /** The number of this process's log: each of several processes has its own. */
      logShard: 0,
      /** The variables in which the tools of a cloud find its credentials. */
      environment,
    };
  },
};

/** The configuration of `rampart serve`: that of every CA, and its own. */
export type ServeConfiguration = Readonly<ReturnType<typeof ServeConfiguration.parse>>;

/** Splits names into host names and the SPIFFE ID, under which others federate by https_spiffe. */
function servingNamesOf(names: readonly string[], { trustDomain }: Configuration): ServingNames {
  const [spiffeId, another] = names.filter(SpiffeId.isWorkload);
  const dnsNames = names.filter((name) => !SpiffeId.isWorkload(name));
  const isOwn = spiffeId === undefined || spiffeId.startsWith(`spiffe://${trustDomain}/`);
  if (isOwn && another === undefined && dnsNames.length > 0)
    return { dnsNames, spiffeId: spiffeId as SpiffeId | undefined };
  throw new ConfigurationError([
    `SERVING_NAMES: must have the name of a host, and at most one SPIFFE ID, of ${trustDomain}`,
  ]);
}

/** Refuses a propagation interval of 0 if several replicas may read the store. */
function requireOneReader({ kind }: StorePlace, { phaseLengths }: Configuration): void {
  if (kind === "directory" || phaseLengths.propagationSeconds !== 0) return;
  const { shortestSeconds } = propagationOf[kind];
  throw new ConfigurationError([`PROPAGATION_INTERVAL: must be at least ${shortestSeconds}s`]);
}

/** Refuses `IMPORT_DIRECTORY` unless roots are offline: a retired imported authority would be imported again. */
function requirePlugged(directory: string | undefined, { authorityRoot }: Configuration): void {
  if (directory === undefined || authorityRoot === "offline") return;
  throw new ConfigurationError(['IMPORT_DIRECTORY: is for AUTHORITY_ROOT = "offline" alone']);
}

/** Adds the credentials in files. A credential in two places is refused: one of them would be stale. */
function withFiles(
  credentials: Configuration["clusterCredentials"],
  values: Readonly<Record<string, string>>,
): Configuration["clusterCredentials"] {
  const files = Object.entries(values).map(
    ([key, file]) => [key.replace(credentialFileName, "$1"), file] as const,
  );
  const twice = files.flatMap(([name]) =>
    credentials.has(name) ? [`${name}_FILE: excludes ${name}: give one of the two`] : [],
  );
  if (twice.length > 0) throw new ConfigurationError(twice);
  return new Map([
    ...credentials,
    ...files.map(([name, file]) => [name, credentialInFile(file, readerOf(name))] as const),
  ]);
}

/** How to read the file of a credential: that of a key service may be JSON with several lines. */
const readerOf = (name: string) =>
  keyServiceCredential.test(name)
    ? async (file: string) => (await SmallFile.read(file, 32_768)).trim()
    : undefined;
