"use strict";
// Texts of the collection are shown by textContent alone, never as markup.
const at = id => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token");
const keyOf = one => `${one.system} ${one.variant}`;

// an answer of the server, or an object with an error
async function got(path, parameters, posted) {
  try {
    const response = await fetch(`${path}?${new URLSearchParams(parameters)}`, {
      headers: {"Authorization": `Bearer ${token}`, ...(posted ? {"Content-Type": "application/json"} : {})},
      ...(posted ? {method: "POST", body: JSON.stringify(posted)} : {}),
    });
    return response.status === 403 ? {error: await response.text()} : await response.json();
  } catch {
    return {error: "The server did not answer. Start it again: make serve"};
  }
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function fill(select, names, wanted) {
  select.replaceChildren(...names.map(name => new Option(name, name)));
  if (names.includes(wanted)) select.value = wanted;
}

function said(text, command) {
  const note = element("p", "note", text);
  if (command) note.append(" Make it, then ask again:", element("code", "", command));
  return note;
}
