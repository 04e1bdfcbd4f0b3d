import type { KubernetesClient } from "../../../src/kubernetes/client.ts";

/** Watches that yield the events of a script, each once the one before has been processed. */
export const tellEvents =
  (
    events: (path: string, signal: AbortSignal) => AsyncGenerator<unknown>,
  ): KubernetesClient["open"] =>
  async (path, signal) => {
    const lines = async function* (): AsyncGenerator<Uint8Array<ArrayBuffer>> {
      for await (const event of events(path, signal))
        yield new TextEncoder().encode(`${JSON.stringify(event)}\n`);
    };
    const told = lines();
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>) => {
      const { done, value } = await told.next();
      if (done) controller.close();
      else controller.enqueue(value);
    };
    return { body: new ReadableStream({ pull }, { highWaterMark: 0 }) };
  };
