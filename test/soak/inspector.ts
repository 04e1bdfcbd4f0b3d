/** The heap and the handles of a process of Node, read through its inspector. */
export interface Inspector {
  /** Live memory after a collection, buffers included, in MiB. */
  readonly heapMebibytes: () => Promise<number>;
  /** The handles that keep the event loop alive: sockets, timers, requests. */
  readonly activeResources: () => Promise<number>;
  readonly close: () => void;
}

interface HeapUsage {
  readonly usedSize: number;
  readonly backingStorageSize: number;
}

/** @param url The `ws://` URL that the process tells when it starts. */
export async function connectInspector(url: string): Promise<Inspector> {
  const socket = new WebSocket(url);
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve(), { once: true });
    socket.addEventListener("error", () => reject(new Error("no inspector")), { once: true });
  });
  const waiting = new Map<number, (result: unknown) => void>();
  socket.addEventListener("message", ({ data }) => {
    const { id, result } = JSON.parse(String(data));
    waiting.get(id)?.(result);
    waiting.delete(id);
  });
  let lastId = 0;
  const ask = (method: string, params: object = {}): Promise<unknown> =>
    new Promise((resolve) => {
      const id = ++lastId;
      waiting.set(id, resolve);
      socket.send(JSON.stringify({ id, method, params }));
    });
  const expression = "process.getActiveResourcesInfo().length";
  return {
    heapMebibytes: async () => {
      await ask("HeapProfiler.collectGarbage");
      const usage = (await ask("Runtime.getHeapUsage")) as HeapUsage;
      return (usage.usedSize + usage.backingStorageSize) / 2 ** 20;
    },
    activeResources: async () => {
      const answer = await ask("Runtime.evaluate", { expression, returnByValue: true });
      return (answer as { result: { value: number } }).result.value;
    },
    close: () => socket.close(),
  };
}
