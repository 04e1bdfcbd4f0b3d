import { X509Certificate } from "node:crypto";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { ConfiguredKeks } from "../../../src/config/keks.ts";
import { PlatformKeys } from "../../../src/config/platform-keys.ts";
import { WrappedKek } from "../../../src/custody/key-service/kek-lease.ts";
import { createServiceRoot, wrapKek } from "../../../src/custody/key-service/operators-keys.ts";
import { messageOf } from "../../../src/foundation/errors.ts";
import { nodeKeyCustody } from "../../../src/node/key-service/key-custody.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import { createMemoryStore } from "../../testkit/ca/memory-store.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { leasePorts } from "../../testkit/key-services/key-service.ts";
import type { RealService } from "./services.ts";

/** @returns What was seen. @throws Error for anything else */
type Scene = (service: RealService) => Promise<string>;

const day = 86_400;

/** The key services as a CA reaches them, by the service's own credentials. */
function custodyOf(
  { credentials }: RealService,
  clock: () => Date = () => new Date(),
): PlatformKeys {
  const texts = Object.entries(credentials).map(([name, text]) => [name, () => text] as const);
  return PlatformKeys.open(
    { clusterCredentials: new Map(texts) },
    { fetch: NodeFetch.trusting(undefined), clock, ...leasePorts },
  );
}

const octets = () => crypto.getRandomValues(new Uint8Array(32));

/** @throws Error unless the work fails with such a sentence. */
async function requireFault(work: Promise<unknown>, sentence: RegExp): Promise<string> {
  const said = await work.then(() => "it worked", messageOf);
  if (sentence.test(said)) return said;
  throw new Error(`not ${sentence}: ${said}`);
}

const opensItsOwn: Scene = async (service) => {
  const { keyServices } = custodyOf(service);
  const kek = { id: "k1", octets: octets() };
  const wrapped = await wrapKek(kek, service.wrapping, "mesh.test", keyServices);
  const opened = await WrappedKek.open(wrapped, "mesh.test", keyServices);
  if (Buffer.compare(opened, kek.octets) !== 0) throw new Error("other octets");
  await requireFault(WrappedKek.open(wrapped, "other.test", keyServices), service.misfit);
  const other = { ...wrapped, id: "k2" };
  await requireFault(WrappedKek.open(other, "mesh.test", keyServices), service.misfit);
  const foreign = wrapKek(kek, service.signing["EC P-256"], "mesh.test", keyServices);
  return `not for another trust domain or id; a key that signs: ${await requireFault(foreign, /./)}`;
};

/** Takes a service with a credential of the machine. */
export const takesTheMachines: Scene = async ({ machine, wrapping }) => {
  if (!machine) throw new Error("no credential of a machine");
  const { secrets = {}, otherSecrets, environment = {}, seen } = machine;
  const custodyBy = (values: Readonly<Record<string, string>>) => {
    const texts = Object.entries(values).map(([name, text]) => [name, () => text] as const);
    return nodeKeyCustody({ clusterCredentials: new Map(texts) }, environment, () => new Date());
  };
  const { keyServices } = custodyBy(secrets);
  const kek = { id: "k1", octets: octets() };
  const wrapped = await wrapKek(kek, wrapping, "mesh.test", keyServices);
  const opened = await WrappedKek.open(wrapped, "mesh.test", keyServices);
  if (Buffer.compare(opened, kek.octets) !== 0) throw new Error("other octets");
  if (!otherSecrets) return `${seen}, and a KEK opened by that`;
  const forged = WrappedKek.open(wrapped, "mesh.test", custodyBy(otherSecrets).keyServices);
  return `${seen}, and a KEK opened by that; a forged one: ${await requireFault(forged, /refuses the credential/)}`;
};

const livesOnALease: Scene = async (service) => {
  let now = new Date();
  const keyCustody = custodyOf(service, () => now);
  const wrapped = wrapKek(
    { id: "k1", octets: octets() },
    service.wrapping,
    "cluster.local",
    keyCustody.keyServices,
  );
  const renewals: Promise<void>[] = [];
  const values = { KEK: ConfiguredKeks.format(await wrapped), INCEPTION_DATE: dayOf(now) };
  const ca = await startCa(values, {
    keyCustody,
    clock: () => now,
    inBackground: (work) => void renewals.push(work),
  });
  await Rotation.rotateAll([ca.mint], now);
  const { authorities } = ca.certificateAuthority.issuance;
  const pass = async (minutes: number) => {
    now = new Date(now.getTime() + 60_000 * minutes);
    await Promise.all(renewals.splice(0));
    return (await authorities.at(now)).issuer;
  };
  await pass(1);
  const sentence = await service.disable(true);
  for (let i = 0; i < 10; i++) if (!(await pass(5))) throw new Error("no issuer in the lease");
  const said = await requireFault(pass(15), sentence);
  await service.disable(false);
  if (!(await pass(1))) throw new Error("no issuer after the outage");
  return said;
};

const dayOf = (now: Date): string => now.toISOString().slice(0, 10);

const signsIntermediates: Scene = async (service) => {
  const seen: string[] = [];
  for (const [kind, uri] of Object.entries(service.signing)) {
    let now = new Date();
    const clock = () => now;
    const keyCustody = custodyOf(service, clock);
    const key = keyCustody.keyServices(uri);
    const root = Pem.format(
      "CERTIFICATE",
      await createServiceRoot(key, clusterLocal, 3650 * day, now),
    );
    const ca = await startCa(
      {
        KEK: randomKek(),
        INCEPTION_DATE: dayOf(now),
        AUTHORITY_ROOT: "upstream",
        UPSTREAM_AUTHORITY: { kind: "key-service", keys: [uri], root },
        MAX_WORKLOAD_CERT_TTL: "24h",
        AUTHORITY_LIFETIME: "240h",
        PROPAGATION_INTERVAL: "10m",
      },
      { keyCustody, clock, store: createMemoryStore() },
    );
    const signers = new Set<string>();
    for (let i = 0; i < 24; i++) {
      await Rotation.rotateAll([ca.mint], now);
      now = new Date(now.getTime() + 1000 * day);
      await ca.certificateAuthority.issuance.authorities.renew(now);
      const { issuer } = await ca.certificateAuthority.issuance.authorities.at(now);
      const certificate = new X509Certificate(issuer?.authority.certificate.der ?? "");
      if (!certificate.verify(new X509Certificate(root).publicKey)) throw new Error("not verified");
      signers.add(certificate.fingerprint256);
    }
    if (signers.size < 4) throw new Error(`${signers.size} intermediates of ${kind}`);
    seen.push(`${kind}: ${signers.size}`);
  }
  return `intermediates that OpenSSL verifies, ${seen.join(", ")}`;
};

const isPinned: Scene = async (service) => {
  const now = new Date();
  const keyCustody = custodyOf(service);
  const { "EC P-256": first, another } = service.signing;
  const der = await createServiceRoot(keyCustody.keyServices(first), clusterLocal, day, now);
  const ca = await startCa(
    {
      INCEPTION_DATE: dayOf(now),
      AUTHORITY_ROOT: "upstream",
      UPSTREAM_AUTHORITY: {
        kind: "key-service",
        keys: [another],
        root: Pem.format("CERTIFICATE", der),
      },
    },
    { keyCustody, clock: () => now },
  );
  return requireFault(Rotation.rotateAll([ca.mint], now), /another key than the one of the root/);
};

export const scenes: readonly (readonly [string, Scene])[] = [
  ["a KEK opens for its trust domain and id alone", opensItsOwn],
  ["a machine finds its credential by itself", takesTheMachines],
  ["a KEK is held on a lease", livesOnALease],
  ["a root signs the intermediates of three rotations", signsIntermediates],
  ["the public key of a root is pinned", isPinned],
];
