import { OperatorError } from "../../foundation/errors.ts";
import { SpiffeId, type TrustDomain } from "../../pki/spiffe-id.ts";
import { PemFile } from "../../program/files/pem-file.ts";
import { unlessMissing } from "../../program/files/small-file.ts";
import type { AgentConfiguration } from "../configuration.ts";
import type { Identities } from "../identity/identities.ts";
import type { RefreshingIdentity } from "../identity/refreshing-identity.ts";
import { chainPem, privateKeyPem } from "../identity/x509-svid.ts";
import type { FederatedBundles } from "../trust/bundles.ts";
import type { Revocation } from "../trust/revocation.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import { type FileSecretPorts, fileSecrets, parseFileResource } from "./file-secrets.ts";
import { watchFile } from "./file-watch.ts";
import type { MountedFiles } from "./mounted-files.ts";
import {
  allResource,
  type Crls,
  type DomainRoots,
  defaultResource,
  rootResource,
  type Secret,
  type SecretSource,
} from "./secret-source.ts";

interface SecretParts extends Pick<FileSecretPorts, "log" | "metrics"> {
  readonly configuration: AgentConfiguration;
  readonly identities: Identities;
  /** The identity of a sidecar; `undefined` in node mode. */
  readonly own: RefreshingIdentity | undefined;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly revocation: Revocation;
  readonly mounted: MountedFiles;
}

/** The source of every resource that an agent serves. Files take precedence over the agent's certificates and roots. */
export function agentSecrets(parts: SecretParts): SecretSource {
  const { configuration, identities, own, trust, mounted } = parts;
  const fileOf = (name: string) => mounted.find(name) ?? parseFileResource(name);
  const filePorts = { ...parts, debounceMilliseconds: configuration.fileDebounceMilliseconds };
  const files = fileSecrets(fileOf, filePorts);
  const issued = identitySecrets(
    (name) => (name === defaultResource ? own : identities.find(name)),
    configuration.isPkcs8,
  );
  const roots = rootSecrets(trust, async () => own?.awaitSvid());
  const choose = (name: string): SecretSource =>
    fileOf(name) ? files : name === rootResource ? roots : issued;
  const plain: SecretSource = {
    load: (name) => choose(name).load(name),
    watch(name, onChange) {
      if (parseFileResource(name)) return files.watch(name, onChange);
      // Files may be mounted over the resource at any time.
      const unsubscribe = mounted.changes.add(onChange);
      const unwatch = (name === rootResource ? roots : issued).watch(name, onChange);
      return () => {
        unsubscribe();
        unwatch();
      };
    },
  };
  const crls = withCrls(plain, parts.revocation, configuration.crlFile, filePorts);
  return withBundles(crls, configuration.trustDomain, parts.federation);
}

/**
 * Adds SPIRE's names to Istio's: the SPIFFE ID of a trust domain for its roots, and `ALL`. The SPIFFE ID of the agent's
 * own trust domain names the same resource as `ROOTCA`, with its CRLs.
 */
export function withBundles(
  source: SecretSource,
  own: TrustDomain,
  federation: Pick<FederatedBundles, "current" | "changes">,
): SecretSource {
  const foreign = (): readonly DomainRoots[] =>
    [...federation.current].map(([trustDomain, roots]) => ({ trustDomain, pem: roots.join("") }));
  const ownName = SpiffeId.ofTrustDomain(own);
  const istioNameOf = (name: string): string => (name === ownName ? rootResource : name);
  const isForeign = (name: string): boolean => name !== ownName && domainId.test(name);

  async function loadAllDomains(): Promise<Secret> {
    const roots = await source.load(rootResource);
    const ofOwn = roots.kind === "roots" ? [{ trustDomain: own, pem: roots.pem }] : [];
    return { kind: "bundles", bundles: [...ofOwn, ...foreign()] };
  }

  return {
    async load(name) {
      if (name === allResource) return loadAllDomains();
      if (!isForeign(name)) return source.load(istioNameOf(name));
      const bundles = foreign().filter(
        ({ trustDomain }) => SpiffeId.ofTrustDomain(trustDomain) === name,
      );
      if (bundles.length === 0) throw new Error("no bundle of this trust domain is known");
      return { kind: "bundles", bundles };
    },
    watch(name, onChange) {
      if (isForeign(name)) return federation.changes.add(onChange);
      if (name !== allResource) return source.watch(istioNameOf(name), onChange);
      const ends = [source.watch(rootResource, onChange), federation.changes.add(onChange)];
      return () => {
        for (const end of ends) end();
      };
    },
  };
}

/** The SPIFFE ID of a trust domain, which has no path. */
const domainId = /^spiffe:\/\/[^/]+$/;

/** The certificates of identities, by the names that `find` knows. */
function identitySecrets(
  find: (name: string) => RefreshingIdentity | undefined,
  isPkcs8: boolean,
): SecretSource {
  return {
    async load(name) {
      const identity = find(name);
      if (!identity) throw new Error("no such resource");
      const svid = await identity.awaitSvid();
      return {
        kind: "certificate",
        chainPem: chainPem(svid),
        privateKeyPem: privateKeyPem(svid.privateKey, isPkcs8),
      };
    },
    watch: (name, onChange) => find(name)?.changes.add(onChange) ?? (() => undefined),
  };
}

/**
 * Serves the roots of the agent's own trust domain. While none is known, a load waits for `awaitFirst`, the CA's first
 * response.
 */
function rootSecrets(trust: TrustRoots, awaitFirst: () => Promise<unknown>): SecretSource {
  const load = async (): Promise<Secret> => {
    if (trust.current.length === 0) await awaitFirst();
    if (trust.current.length === 0) throw new Error("no roots are known yet");
    return { kind: "roots", pem: trust.pem };
  };
  return { load, watch: (_name, onChange) => trust.changes.add(onChange) };
}

/** A CRL of a million revoked certificates has about 40 MiB. */
const maximumOctets = 64 << 20;

type ServedCrls = Pick<Revocation, "isPublished" | "pem" | "changes" | "settled">;

/**
 * Adds CRLs to the roots of the agent's trust domain: those that the CA publishes, or else those in a file. Roots from
 * other files get none, because Envoy, once it has a CRL, refuses all certificates of an authority without one.
 *
 * Rampart's CRLs are about leaves. Envoy must not require CRLs of the CAs above, which others operate.
 *
 * @param file Read anew in each load. As in Istio, a missing or empty file revokes nothing. If its content is no CRL,
 *   the load fails, so that a proxy keeps the CRLs that it has.
 */
export function withCrls(
  source: SecretSource,
  published: ServedCrls,
  file: string | undefined,
  ports: FileSecretPorts,
): SecretSource {
  async function current(): Promise<Crls | undefined> {
    await published.settled();
    const { isPublished } = published;
    const pem = isPublished ? published.pem : file === undefined ? "" : await readCrls(file);
    return pem === "" ? undefined : { pem, isOfLeaves: isPublished };
  }

  return {
    async load(name) {
      const secret = await source.load(name);
      if (name !== rootResource || secret.kind !== "roots") return secret;
      const revocation = await current();
      return revocation ? { ...secret, revocation } : secret;
    },
    watch(name, onChange) {
      const unwatch = source.watch(name, onChange);
      if (name !== rootResource) return unwatch;
      const ends = [
        unwatch,
        published.changes.add(onChange),
        ...(file === undefined ? [] : [watchFile(file, onChange, { ...ports, maximumOctets })]),
      ];
      return () => {
        for (const end of ends) end();
      };
    },
  };
}

async function readCrls(file: string): Promise<string> {
  const text = (await unlessMissing(PemFile.read(file, maximumOctets))) ?? "";
  if (text.trim() === "") return "";
  const fault = PemFile.faultIn(text, "X509 CRL");
  if (fault === undefined) return text;
  throw new OperatorError(`${file} ${fault}`);
}
