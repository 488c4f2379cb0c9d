// Drives OpenCode's own JavaScript client against a server. Each line of stdin is a call, `{"id", "client", "path",
// "parameters"}`; each line of stdout its answer, `{"id", "status", "data", "error"}`, or an event, `{"from", "event"}`.
//
//   node opencode_sdk.mjs FOLDER URL TOKEN DIRECTORY

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, baseUrl, token, directory] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${folder}/dist/${path}`).href);
const settings = { baseUrl, directory, headers: { authorization: `Bearer ${token}` } };
const clients = {
  today: (await load("v2/index.js")).createOpencodeClient(settings),
  older: (await load("index.js")).createOpencodeClient(settings),
};

const say = (row) => process.stdout.write(`${JSON.stringify(row)}\n`);

async function follow(from, subscribing) {
  const { stream } = await subscribing;
  for await (const event of stream) say({ from, event });
}

follow("today", clients.today.event.subscribe());
follow("today, all", clients.today.global.event());
follow("older", clients.older.event.subscribe());

for await (const line of createInterface({ input: process.stdin })) {
  const { id, client, path, parameters } = JSON.parse(line);
  const [group, method] = path.length === 2 ? path : [null, path[0]];
  const owner = group === null ? clients[client] : clients[client][group];
  const { data, error, response } = await owner[method](parameters);
  say({ id, status: response.status, data: data ?? null, error: error ?? null });
}
process.exit(0);
