import { X509Certificate } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { pemsOf, SdsStream, security, workloadApiClient } from "../../testkit/agent/sds-client.ts";
import { readCrl } from "../../testkit/pki/crls.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

let ca: HttpCa;
let silent: HttpCa;
beforeAll(async () => {
  [ca, silent] = await Promise.all([startHttpCa({ CRL: "on" }), startHttpCa()]);
});
afterAll(() => Promise.all([ca.close(), silent.close()]));

/** The validation context of Envoy's roots, as each response brings it. */
async function watchRoots(socket: string) {
  const stream = new SdsStream(socket);
  stream.subscribe("ROOTCA");
  const next = async () => {
    const [secret] = await stream.secrets();
    if (secret?.type.case !== "validationContext") throw new Error("no validation context");
    stream.acknowledge("ROOTCA");
    const { crl, onlyVerifyLeafCertCrl } = secret.type.value;
    const text = Buffer.from((crl?.specifier.value as Uint8Array) ?? []).toString();
    return { crl: text, isOfLeaves: onlyVerifyLeafCertCrl, roots: pemsOf(secret)[0] };
  };
  return next;
}

const often = { RAMPART_BUNDLE_REFRESH: "1s" };

test("CRLs of the CA reach Envoy, SPIFFE clients and files, and so does the next one", async () => {
  const output = await temporaryFolder();
  const socket = `${await temporaryFolder()}/api`;
  const variables = { ...often, OUTPUT_CERTS: output, RAMPART_WORKLOAD_API_SOCKET: socket };
  const { sdsSocket, event, agent } = await runAgent(ca, variables);
  await Promise.all([event("revocation-lists-used"), event("files-written")]);
  const next = await watchRoots(sdsSocket);
  const first = await next();
  expect(readCrl(first.crl).entries).toEqual([]);
  expect(first.isOfLeaves).toBe(true);

  const leaf = new X509Certificate(await readFile(`${output}/cert-chain.pem`));
  await ca.revoke(leaf.serialNumber);
  const second = await next();
  const serials = readCrl(second.crl).entries.map(([serial]) => serial.toUpperCase());
  expect(serials.map(withoutSign)).toEqual([withoutSign(leaf.serialNumber)]);
  expect(second.roots).toBe(first.roots);

  const client = workloadApiClient(socket);
  for await (const { crl } of client.fetchX509SVID({}, security)) {
    expect(crl.map((each) => readCrl(Uint8Array.from(each)).entries.length)).toEqual([1, 1]);
    break;
  }
  for await (const { crl } of client.fetchX509Bundles({}, security)) {
    expect(crl).toHaveLength(2);
    break;
  }
  await eventually(async () =>
    expect(await readFile(`${output}/ca-crl.pem`, "utf8")).toBe(second.crl),
  );
  expect(await event("certificate-revoked")).toMatchObject({ level: "warning" });
  await event("certificate-obtained", 2);
  expect(agent.status()).toMatchObject({ isReady: true, reasons: [] });
  const [authority, instant] = [/^[0-9a-f]{40}$/, /Z$/].map((each) => expect.stringMatching(each));
  const list = { authority, number: expect.stringMatching(/^\d+$/), nextUpdate: instant };
  const { revocation } = agent.status();
  expect(revocation).toEqual({ isUsed: true, lists: [list, list], confirmedAt: instant });
  const metrics = await (await fetch(`${agent.statusUrl}/metrics`)).text();
  expect(metrics).toMatch(
    /^istio_agent_revocation_list_expiry_seconds\{authority="[0-9a-f]{40}"\} [1-9]/m,
  );
});

test("CRLs outlast a restart of the agent, and refuse what they named while the CA is away", async () => {
  const variables = { ...often, RAMPART_CACHE: await temporaryFolder() };
  const own = await startHttpCa({ CRL: "on" });
  const before = await runAgent(own, variables);
  await before.event("revocation-lists-used");
  const named = await (await watchRoots(before.sdsSocket))();
  await before.agent.close();
  await own.close();
  const after = await runAgent(own, variables);
  await after.event("certificate-recalled");
  expect(await (await watchRoots(after.sdsSocket))()).toEqual(named);
  expect(readCrl(named.crl).entries).toEqual([]);
  expect(after.agent.status()).toMatchObject({ isReady: true, revocation: { isUsed: true } });
});

const withoutSign = (serial: string): string => serial.replace(/^00/, "");

test("CRLs are no fault and no file where the CA publishes none", async () => {
  const output = await temporaryFolder();
  const { sdsSocket, event, events } = await runAgent(silent, { OUTPUT_CERTS: output });
  await Promise.all([event("files-written"), event("bundle-read")]);
  const { crl, isOfLeaves } = await (await watchRoots(sdsSocket))();
  expect({ crl, isOfLeaves }).toEqual({ crl: "", isOfLeaves: false });
  expect(await readdir(output)).not.toContain("ca-crl.pem");
  expect(events.filter(({ level }) => level !== "info")).toEqual([]);
});

test("CRLs that a mounted file has count where the CA publishes none", async () => {
  const { agent, event, sdsSocket } = await runAgent(ca, { RAMPART_CRL_URL: "off" });
  await event("certificate-obtained");
  // No wait for CRLs would end.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  expect((await (await watchRoots(sdsSocket))()).crl).toBe("");
  expect(agent.status().revocation).toEqual({
    isUsed: false,
    lists: [],
    confirmedAt: undefined,
    lastError: undefined,
  });
});
