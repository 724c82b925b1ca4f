// SPDX-License-Identifier: Apache-2.0
// store.js - conversations in the IndexedDB of the browser. docs/web.md describes the records.

const NAME = "mote";
const VERSION = 1;

let database = null;

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function finished(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
  });
}

export async function open() {
  const request = indexedDB.open(NAME, VERSION);
  request.onupgradeneeded = () => {
    const d = request.result;
    d.createObjectStore("conversations", {keyPath: "id"});
    d.createObjectStore("messages", {keyPath: "id"}).createIndex("conversation", "conversation");
    d.createObjectStore("media", {keyPath: "id"}).createIndex("conversation", "conversation");
  };
  database = await done(request);
}

function store(name, mode = "readonly") {
  return database.transaction(name, mode).objectStore(name);
}

// Newest first.
export async function conversations() {
  const all = await done(store("conversations").getAll());
  return all.sort((a, b) => b.updated - a.updated);
}

export const messagesOf = (id) => done(store("messages").index("conversation").getAll(id));
export const mediaOf = (id) => done(store("media").index("conversation").getAll(id));

async function put(name, record) {
  const transaction = database.transaction(name, "readwrite");
  transaction.objectStore(name).put(record);
  await finished(transaction);
}

export const putConversation = (record) => put("conversations", record);
export const putMessage = (record) => put("messages", record);
export const putMedia = (record) => put("media", record);

// Several records at once: {conversations: [...], messages: [...], media: [...]}.
export async function putAll(records) {
  const transaction = database.transaction(Object.keys(records), "readwrite");
  for (const [name, list] of Object.entries(records))
    for (const record of list) transaction.objectStore(name).put(record);
  await finished(transaction);
}

export async function removeConversation(id) {
  const transaction = database.transaction(["conversations", "messages", "media"], "readwrite");
  transaction.objectStore("conversations").delete(id);
  for (const name of ["messages", "media"]) {
    const index = transaction.objectStore(name).index("conversation");
    index.openCursor(IDBKeyRange.only(id)).onsuccess = (event) => {
      const cursor = event.target.result;
      if (cursor) {
        cursor.delete();
        cursor.continue();
      }
    };
  }
  await finished(transaction);
}

// Ids of the conversations with a message that contains the text, in any letter case.
export function search(text) {
  const wanted = text.toLowerCase();
  const found = new Set();
  return new Promise((resolve, reject) => {
    const request = store("messages").openCursor();
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const cursor = request.result;
      if (!cursor) {
        resolve(found);
        return;
      }
      const m = cursor.value;
      if (!found.has(m.conversation) && m.text.toLowerCase().includes(wanted)) found.add(m.conversation);
      cursor.continue();
    };
  });
}
