import { rm } from "node:fs/promises";
import { expect, onTestFinished, test } from "vitest";
import { serveStatus } from "../../../../src/agent/status/status-server.ts";
import { parseLog } from "../../../testkit/log/log-lines.ts";
import {
  type Answer,
  createOperatorFolder,
  rampart,
} from "../../../testkit/programs/command-line.ts";

const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };

async function run(words: string, variables: Readonly<Record<string, string>>): Promise<Answer> {
  const folder = await createOperatorFolder();
  onTestFinished(() => rm(folder.path, { recursive: true, force: true }));
  return await rampart(folder, words, { ...pod, ...variables });
}

test("an agent logs on the standard error, and leaves the standard output to its program", async () => {
  const { code, stdout, stderr } = await run("agent run -- node -p 6*7", {
    CA_ADDR: "http://127.0.0.1:1",
    RAMPART_TOKEN_FILE: "token",
    RAMPART_SDS_SOCKET: "sds",
    RAMPART_STATUS_ADDR: "127.0.0.1:0",
  });
  expect({ code, stdout }).toEqual({ code: 0, stdout: "42\n" });
  const lines = parseLog(stderr);
  expect(lines).toContainEqual(expect.objectContaining({ event: "agent-started", level: "info" }));
  expect(lines).toContainEqual(expect.objectContaining({ event: "proxy-exited", code: 0 }));
});

test.each(["run", "bootstrap", "status"])(
  "`rampart agent %s` names every fault of its environment, and shows no stack",
  async (verb) => {
    const { code, stdout, stderr } = await run(`agent ${verb}`, {
      SECRET_TTL: "1 day",
      TRUST_DOMAIN: "UPPER",
    });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^rampart: SECRET_TTL: .*\n +TRUST_DOMAIN: .*\n$/);
  },
);

test("`rampart agent status` says why an agent is not ready, and ends with 3", async () => {
  const reasons = ["Envoy has no listeners yet"];
  const bundle = {
    sequence: undefined,
    confirmedAt: undefined,
    lastError: undefined,
    isFollowed: true,
  };
  const revocation = { isUsed: false, lists: [], confirmedAt: undefined, lastError: undefined };
  const documents = { bundle, revocation };
  const own = {
    isReady: true,
    reasons: [],
    identities: [],
    roots: [],
    ...documents,
    xds: undefined,
  };
  const proxy = {
    faults: async () => reasons,
    metrics: async () => "",
    drain: async () => undefined,
    quit: () => undefined,
  };
  const view = { status: () => own, metrics: async () => "", proxy };
  const server = await serveStatus({ host: "127.0.0.1", port: 0 }, view);
  onTestFinished(() => server.close());
  const { code, stdout } = await run("agent status", {
    RAMPART_STATUS_ADDR: new URL(server.url).host,
  });
  expect(code).toBe(3);
  expect(stdout).toMatch(/^not ready\n {2}Envoy has no listeners yet\n/);
});
