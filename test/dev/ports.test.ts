import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { requireFreePorts } from "../../dev/ports.ts";
import { OperatorError } from "../../src/foundation/errors.ts";

async function listen(): Promise<{ port: number; close: () => void }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.close();
  };
  onTestFinished(close);
  return { port: (server.address() as AddressInfo).port, close };
}

test("accepts ports on which nothing listens, and leaves them free", async () => {
  const { port, close } = await listen();
  close();
  await requireFreePorts({ [port]: "the CA" });
  await requireFreePorts({ [port]: "the CA" });
});

test("names every taken port, and the program that needs it", async () => {
  const [one, other] = [await listen(), await listen()];
  const refusal = requireFreePorts({ [one.port]: "the CA", [other.port]: "the cluster" });
  await expect(refusal).rejects.toThrow(OperatorError);
  await expect(refusal).rejects.toThrow(`Port ${one.port} on 127.0.0.1 is taken, and the CA`);
  await expect(refusal).rejects.toThrow(
    `Port ${other.port} on 127.0.0.1 is taken, and the cluster`,
  );
});
