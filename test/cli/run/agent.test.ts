import { rm } from "node:fs/promises";
import { expect, onTestFinished, test } from "vitest";
import { parseLog } from "../../testkit/log-lines.ts";
import { createOperatorFolder, rampart } from "../../testkit/programs/command-line.ts";

test("an agent logs on the standard error, and leaves the standard output to its program", async () => {
  const folder = await createOperatorFolder();
  onTestFinished(() => rm(folder.path, { recursive: true, force: true }));
  const { code, stdout, stderr } = await rampart(folder, "agent run -- node -p 6*7", {
    CA_ADDR: "http://127.0.0.1:1",
    POD_NAMESPACE: "foo",
    SERVICE_ACCOUNT: "bar",
    RAMPART_TOKEN_FILE: "token",
    RAMPART_SDS_SOCKET: "sds",
    RAMPART_STATUS_ADDR: "127.0.0.1:0",
  });
  expect({ code, stdout }).toEqual({ code: 0, stdout: "42\n" });
  const lines = parseLog(stderr);
  expect(lines).toContainEqual(expect.objectContaining({ event: "agent-started", level: "info" }));
  expect(lines).toContainEqual(expect.objectContaining({ event: "proxy-exited", code: 0 }));
});
