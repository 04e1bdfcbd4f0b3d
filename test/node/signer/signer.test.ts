import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { runSigner } from "../../../src/node/signer/signer.ts";
import { parseSignerConfiguration } from "../../../src/node/signer/signer-configuration.ts";
import { createTokenKey, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

test("a signer whose own token has expired says so before anybody requests a certificate", async () => {
  const token = join(await temporaryFolder(), "token");
  const key = await createTokenKey("ES256", "k1");
  const past = { exp: Math.floor(Date.now() / 1000) - 1 };
  const write = async (changes: Record<string, unknown> = {}) =>
    writeFile(
      token,
      await mintAccountToken(key, "https://a.test", "a:signer", new Date(), changes),
    );
  await write(past);
  const configuration = parseSignerConfiguration(
    {
      UPSTREAM: "http://127.0.0.1:9",
      MONITORING_LISTEN: "127.0.0.1:0",
      KUBERNETES_SERVER: "http://127.0.0.1:9",
      KUBERNETES_TOKEN_FILE: token,
      TOKEN_FILE: token,
      SIGNERS: [{ name: "example.com/x", services: [{ account: "a/b", dns_names: ["x.a.svc"] }] }],
    },
    {},
  );
  const context = { log: createEventRecorder(), clock: () => new Date() };
  const signer = await runSigner(configuration, context);
  onTestFinished(() => signer.close(0));
  const { port } = signer.monitoringAddress;
  const reasons = async (): Promise<readonly string[]> =>
    (await (await fetch(`http://127.0.0.1:${port}/readyz`)).json()).reasons;
  const unreachable = expect.stringMatching(/^the API server /);
  const expired = `the signer's own token: ${token} holds a token that has expired`;
  await eventually(async () => expect(await reasons()).toEqual([unreachable, expired]));
  await write();
  await eventually(async () => expect(await reasons()).toEqual([unreachable]));
});
