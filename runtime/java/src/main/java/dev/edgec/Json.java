package dev.edgec;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON to maps, lists, strings, doubles, booleans and null: enough to read a manifest. */
final class Json {
  private static final int DEEPEST = 64;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value(0);
    json.blanks();
    if (json.at != text.length()) throw json.damaged();
    return value;
  }

  private Object value(int depth) {
    if (depth > DEEPEST) throw damaged();
    switch (next()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string();
      default:
        return word();
    }
  }

  private Map<String, Object> object(int depth) {
    Map<String, Object> members = new LinkedHashMap<>();
    ++at;
    while (next() != '}') {
      if (next() != '"') throw damaged();
      String key = string();
      expect(':');
      members.put(key, value(depth + 1));
      if (next() != '}') expect(',');
    }
    ++at;
    return members;
  }

  private List<Object> array(int depth) {
    List<Object> items = new ArrayList<>();
    ++at;
    while (next() != ']') {
      items.add(value(depth + 1));
      if (next() != ']') expect(',');
    }
    ++at;
    return items;
  }

  private String string() {
    StringBuilder made = new StringBuilder();
    for (++at; ; ++at) {
      char c = here();
      if (c == '"') break;
      if (c != '\\') {
        made.append(c);
        continue;
      }
      ++at;
      int index = "\"\\/bfnrt".indexOf(here());
      if (index >= 0) {
        made.append("\"\\/\b\f\n\r\t".charAt(index));
      } else if (here() == 'u' && at + 4 < text.length()) {
        made.append((char) number(text.substring(at + 1, at + 5), 16));
        at += 4;
      } else {
        throw damaged();
      }
    }
    ++at;
    return made.toString();
  }

  private Object word() {
    int start = at;
    while (at < text.length() && "{}[]\",: \t\r\n".indexOf(text.charAt(at)) < 0) ++at;
    String word = text.substring(start, at);
    switch (word) {
      case "true":
        return Boolean.TRUE;
      case "false":
        return Boolean.FALSE;
      case "null":
        return null;
      default:
        try {
          return Double.valueOf(word);
        } catch (NumberFormatException error) {
          throw damaged();
        }
    }
  }

  private int number(String digits, int base) {
    try {
      return Integer.parseInt(digits, base);
    } catch (NumberFormatException error) {
      throw damaged();
    }
  }

  private void blanks() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) ++at;
  }

  private char next() {
    blanks();
    return here();
  }

  private char here() {
    if (at >= text.length()) throw damaged();
    return text.charAt(at);
  }

  private void expect(char wanted) {
    if (next() != wanted) throw damaged();
    ++at;
  }

  private EdgeException damaged() {
    return new EdgeException(EdgeException.DAMAGED, "damaged JSON at character " + at);
  }
}
