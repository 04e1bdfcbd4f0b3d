import { expect, test } from "vitest";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { startWitness } from "../../../src/node/log/witness-server.ts";
import { formatCheckpoint } from "../../../src/tlog/note/checkpoint.ts";
import { formatNote } from "../../../src/tlog/note/note.ts";
import { formatVerifierKey } from "../../../src/tlog/note/verifier-key.ts";
import { formatAddCheckpoint } from "../../../src/tlog/witness/witness.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { memoryKeys, memoryOrigin } from "../../testkit/tlog/memory-log.ts";
import { GrownTree } from "../../testkit/tlog/trees.ts";

const { signer } = await memoryKeys(memoryOrigin).create();
const { tree } = new GrownTree().grow(3);
const text = formatCheckpoint({ origin: memoryOrigin, ...tree });
const checkpoint = formatNote({ text, signatures: [await signer.sign(text)] });
const first = formatAddCheckpoint({ older: 0, proof: [], checkpoint });

const start = (directory: string) =>
  startWitness({
    directory,
    name: "w1.example.com",
    logs: [signer.key],
    listen: { host: "127.0.0.1", port: 0 },
    log: createEventRecorder(),
    clock: () => new Date(),
  });

const post = (address: { readonly port: number }, body: string, path = "/add-checkpoint") =>
  fetch(`http://127.0.0.1:${address.port}${path}`, { method: "POST", body });

test("a witness keeps its key and what it has cosigned, and has one writer", async () => {
  const folder = await temporaryFolder();
  const witness = await start(folder);
  expect((await post(witness.address, first)).status).toBe(200);
  await expect(start(folder)).rejects.toThrow(OperatorError);
  await witness.close();
  const again = await start(folder);
  expect(formatVerifierKey(again.key)).toBe(formatVerifierKey(witness.key));
  const conflict = await post(again.address, first);
  expect(conflict.status).toBe(409);
  expect(conflict.headers.get("content-type")).toBe("text/x.tlog.size");
  expect(await conflict.text()).toBe("3\n");
  await again.close();
});

test("a witness answers nothing but requests for cosignatures, of a bounded length", async () => {
  const witness = await start(await temporaryFolder());
  const { port } = witness.address;
  expect((await post(witness.address, first, "/other")).status).toBe(404);
  expect((await fetch(`http://127.0.0.1:${port}/add-checkpoint`)).status).toBe(405);
  expect((await post(witness.address, "x".repeat(70_000))).status).toBe(413);
  expect((await post(witness.address, "nonsense")).status).toBe(400);
  await witness.close();
});
