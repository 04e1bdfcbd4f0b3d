/** The heap of an isolate, read through V8's inspector. */
interface IsolateHeap {
  /** Live memory after a collection, buffers included, in mebibytes. */
  readonly liveMebibytes: () => Promise<number>;
  readonly close: () => void;
}

interface HeapUsage {
  readonly usedSize: number;
  readonly backingStorageSize: number;
}

/**
 * @param inspector The inspector's URL; the first target that it lists is the Worker.
 * @param wake Gives the isolate a task, because a collection waits for the next one.
 */
export async function inspectHeap(
  inspector: URL,
  wake: () => Promise<unknown>,
): Promise<IsolateHeap> {
  const [target] = await (await fetch(`http://${inspector.host}/json`)).json();
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  await eventOf(socket, "open");
  let lastId = 0;
  const ask = async (method: string): Promise<unknown> => {
    const id = ++lastId;
    socket.send(JSON.stringify({ id, method }));
    return answerTo(socket, id);
  };
  return {
    liveMebibytes: async () => {
      let isCollected = false;
      const collected = ask("HeapProfiler.collectGarbage").then(() => {
        isCollected = true;
      });
      while (!isCollected) await wake();
      await collected;
      const usage = (await ask("Runtime.getHeapUsage")) as HeapUsage;
      return (usage.usedSize + usage.backingStorageSize) / 2 ** 20;
    },
    close: () => socket.close(),
  };
}

function eventOf(socket: WebSocket, type: "open"): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.addEventListener(type, () => resolve(), { once: true });
    socket.addEventListener("error", () => reject(new Error("no inspector")), { once: true });
  });
}

function answerTo(socket: WebSocket, id: number): Promise<unknown> {
  return new Promise((resolve) => {
    const listen = ({ data }: MessageEvent): void => {
      const message = JSON.parse(String(data));
      if (message.id !== id) return;
      socket.removeEventListener("message", listen);
      resolve(message.result);
    };
    socket.addEventListener("message", listen);
  });
}
