import { X509Certificate } from "node:crypto";
import { Mint } from "../../../src/ca/mint.ts";
import { NewIntermediate } from "../../../src/ca/rotation/install-intermediate.ts";
import { RequestedIntermediate } from "../../../src/ca/rotation/intermediate-request.ts";
import { readCertificates } from "../../../src/cli/verbs/import/pem-files.ts";
import { verifyImported } from "../../../src/cli/verbs/import/verify.ts";
import { createTaint } from "../../../src/pki/authority/new-taint.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import { openStore } from "../../testkit/ca/tainted-ca.ts";
import { signIntermediate } from "../../testkit/pki/company-ca.ts";
import { createCa } from "../../testkit/pki/plugged-in.ts";
import { until } from "../../testkit/time/until.ts";
import { leafSeconds, stepSeconds } from "./mesh.ts";
import type { StagedCa } from "./platforms.ts";
import type { RealService } from "./services.ts";
import { leaseSeconds, Story } from "./staged-mesh.ts";
import { startUpstream } from "./upstream.ts";

/** What a story tells of a scene: its name, and what was seen. */
export type Tell = (what: string, work: () => Promise<string>) => Promise<void>;

/** A mesh whose KEK and root move into a key service, through its faults, and out again. */
export async function playStory(
  service: RealService,
  ca: StagedCa,
  folder: string,
  tell: Tell,
): Promise<void> {
  const company = await createCa("O=company,CN=offline root");
  const upstream = await startUpstream(ca.now);
  const story = new Story(service, ca, folder, upstream, company);
  const plain = story.kek;
  const { "EC P-256": first, another, "EC P-384": third } = service.signing;
  await tell("a mesh of today", () => founded(story));
  await tell("a KEK of the service replaces one of today's form", async () => {
    await story.moveKek(await story.wrapped("k1"));
    return "appended, first, alone";
  });
  const [a, b, c] = [
    await story.rootOf(first),
    await story.rootOf(another),
    await story.rootOf(third),
  ];
  await tell("from a self-signed root to one of the service", () =>
    story.moveTo((root) => root === a.fingerprint, a.values),
  );
  await tell("three rotations", () => rotations(story));
  await tell("the root's key is disabled", () => disabledRoot(story));
  await tell("an outage below the lease", () => shortOutage(story));
  await tell("the KEK's key is disabled beyond the lease", () => longOutage(story));
  await tell("another KEK of the service replaces the first", async () => {
    await story.moveKek(await story.wrapped("k2"));
    return "appended, first, alone";
  });
  await tell("the service's second key replaces the first", () =>
    story.moveTo((root) => root === b.fingerprint, b.values),
  );
  await tell("a taint of the first root", () => taintedRoot(story, a.fingerprint));
  await tell("to an offline root", () => toOffline(story));
  await tell("from it to the service's", () =>
    story.moveTo((root) => root === c.fingerprint, c.values),
  );
  await tell("to a CA upstream", () =>
    story.moveTo((root) => root === upstream.fingerprint, {
      UPSTREAM_AUTHORITY: { kind: "vault", url: upstream.url },
      UPSTREAM_CREDENTIAL: "hvs.upstream",
    }),
  );
  await tell("from it to the service's", () =>
    story.moveTo((root) => root === c.fingerprint, c.values),
  );
  await tell("back to a self-signed root", async () => {
    const known = [a, b, c].map(({ fingerprint }) => fingerprint);
    return story.moveTo((root) => !known.includes(root), {
      AUTHORITY_ROOT: "self",
      UPSTREAM_AUTHORITY: undefined,
      UPSTREAM_CREDENTIAL: undefined,
    });
  });
  await tell("back to a KEK of today's form", async () => {
    await story.moveKek(plain);
    service.front.isAway = true;
    await story.deploy();
    await story.step();
    return `without the service; ${story.mesh.verifications} verifications, 0 failed; ${story.signatures} signatures`;
  });
  service.front.isAway = false;
  await upstream.close();
}

async function founded(story: Story): Promise<string> {
  await story.deploy();
  const { mesh } = story;
  await story.stepUntil(
    "a first certificate",
    () => mesh.signer !== "",
    () => mesh.step(),
  );
  return "self-signed, with a KEK of its own";
}

async function rotations(story: Story): Promise<string> {
  const { intermediates, signer } = story.mesh;
  const [seen, signed] = [intermediates.size, story.signatures];
  await story.stepUntil("three rotations", () => intermediates.size >= seen + 3);
  if (story.mesh.signer !== signer) throw new Error("another root signs");
  const signatures = story.signatures - signed;
  if (signatures > 4) throw new Error(`${signatures} signatures for three rotations`);
  return `${signatures} signatures`;
}

async function disabledRoot(story: Story): Promise<string> {
  const { intermediates } = story.mesh;
  await story.service.disable(true, "signing");
  let isFailed = false;
  await story.stepUntil(
    "a rotation that fails",
    () => isFailed,
    async () => {
      isFailed = !(await story.step());
      return isFailed;
    },
  );
  const seen = intermediates.size;
  await story.step();
  await story.service.disable(false, "signing");
  await story.stepUntil("the next intermediate", () => intermediates.size > seen);
  return "the rotation failed and came later; no call was refused";
}

async function shortOutage(story: Story): Promise<string> {
  const { front } = story.service;
  front.isAway = true;
  for (let i = 0; i < 4; i++) await story.step();
  // No call waits for the renewal of a lease, so it may be under way.
  await until("/readyz is 200 with the reason", async () => {
    const said = await story.readiness();
    return said.startsWith("200") && said.includes("KEK k1:");
  });
  front.isAway = false;
  await story.step();
  return `${4 * stepSeconds} s of ${leaseSeconds}: no call was refused, /readyz was 200 with the reason`;
}

async function longOutage(story: Story): Promise<string> {
  const { mesh, service } = story;
  const sentence = await service.disable(true);
  await story.stepUntil(
    "a refusal",
    () => mesh.refusals.length > 0,
    () => mesh.step(),
  );
  const [refusal = ""] = mesh.refusals;
  if (!/^unavailable, retry-after [1-9]/.test(refusal)) throw new Error(refusal);
  const said = await story.readiness();
  if (!said.startsWith("503") || !sentence.test(said)) throw new Error(said);
  await story.deploy();
  await mesh.step();
  if (mesh.refusals.length === 0) throw new Error("a start without the key served a call");
  await service.disable(false);
  await story.step();
  return `refused with retry-after at its end and after a start, then served: ${sentence.source}`;
}

async function taintedRoot(story: Story, root: string): Promise<string> {
  const { mesh } = story;
  if (!mesh.roots.includes(root)) throw new Error("the first root has left already");
  const tainted = await story.operate(async (mint) => {
    const store = await openStore(mint);
    const below = store.authorities.filter(({ roots }) =>
      roots.some((der) => new X509Certificate(der).fingerprint256 === root),
    );
    for (const { id } of below) {
      const { phaseLengths } = mint;
      await Mint.recordTaint(
        mint,
        createTaint(store, id, "immediately", phaseLengths, story.ca.now()),
      );
    }
    return below.length;
  });
  await story.stepUntil("the root leaves the bundle", () => !mesh.roots.includes(root));
  return `${tainted} intermediates; the root left the bundle, no leaf failed`;
}

async function toOffline(story: Story): Promise<string> {
  const { company, mesh, ca } = story;
  const seen = mesh.intermediates.size;
  await story.stepUntil("time for a person", () => mesh.intermediates.size > seen);
  await story.deploy({ AUTHORITY_ROOT: "offline", UPSTREAM_AUTHORITY: undefined });
  const { fingerprint256 } = new X509Certificate(company.pem);
  await story.operate(async (mint) => {
    const { id, csr } = await RequestedIntermediate.request(mint, ca.now());
    const notAfter = addSeconds(ca.now(), 8 * leafSeconds);
    const csrPem = Pem.format("CERTIFICATE REQUEST", csr);
    const text = await signIntermediate(company, csrPem, { notAfter });
    const [authority] = readCertificates({ name: "chain.pem", text });
    const anchors = readCertificates({ name: "root.pem", text: company.pem });
    if (!authority) throw new Error("no certificate");
    const imported = { authority, others: [], anchors };
    const verified = await verifyImported(imported, clusterLocal, ca.now());
    const request = (await openStore(mint)).requests.find((each) => each.id === id);
    if (!request) throw new Error("no open request");
    const extractablePrivateKey = await RequestedIntermediate.keyOf(mint, request);
    const intermediate = { verified, extractablePrivateKey, otherRoots: [] };
    return NewIntermediate.install(mint, intermediate, ca.now());
  });
  return story.arriveAt((root) => root === fingerprint256);
}
