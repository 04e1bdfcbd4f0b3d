import { X509Certificate } from "node:crypto";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
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
import type { Disable, Machine, RealService } from "./services.ts";

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

const takesTheMachines =
  ({ secrets = {}, otherSecrets, environment = {}, seen }: Machine): Scene =>
  async ({ wrapping }) => {
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

const saysThatItIsDisabled =
  (disable: Disable): Scene =>
  async (service) => {
    const { keyServices } = custodyOf(service);
    const kek = { id: "k1", octets: octets() };
    const wrapped = await wrapKek(kek, service.wrapping, "mesh.test", keyServices);
    const open = () => WrappedKek.open(wrapped, "mesh.test", keyServices);
    const sentence = await disable(true);
    const said = await requireFault(open(), sentence);
    await disable(false);
    await open();
    return said;
  };

const signsIntermediates: Scene = async (service) => {
  const kinds = Object.entries(service.signing);
  for (const [kind, uri] of kinds) {
    let now = new Date();
    const clock = () => now;
    const keyCustody = custodyOf(service, clock);
    const key = keyCustody.keyServices(uri);
    const der = await createServiceRoot(key, clusterLocal, 3650 * day, now);
    const root = Pem.format("CERTIFICATE", der);
    const ca = await startCa(
      {
        KEK: randomKek(),
        INCEPTION_DATE: now.toISOString().slice(0, 10),
        AUTHORITY_ROOT: "upstream",
        UPSTREAM_AUTHORITY: { kind: "key-service", keys: [uri], root },
      },
      { keyCustody, clock, store: createMemoryStore() },
    );
    await Rotation.rotateAll([ca.mint], now);
    now = new Date(now.getTime() + 1000 * day);
    const { issuer } = await ca.certificateAuthority.issuance.authorities.at(now);
    const certificate = new X509Certificate(issuer?.authority.certificate.der ?? "");
    if (!certificate.verify(new X509Certificate(root).publicKey))
      throw new Error(`the root of ${kind} does not verify it`);
  }
  return `an intermediate that OpenSSL verifies of each: ${kinds.map(([kind]) => kind).join(", ")}`;
};

export const scenesOf = ({
  machine,
  disable,
}: RealService): readonly (readonly [string, Scene])[] => [
  ["a KEK opens for its trust domain and id alone", opensItsOwn],
  ...(machine
    ? ([["a machine finds its credential by itself", takesTheMachines(machine)]] as const)
    : []),
  ...(disable ? ([["a disabled key opens nothing", saysThatItIsDisabled(disable)]] as const) : []),
  ["a root signs intermediates", signsIntermediates],
];
