package dev.edgec.samples.digits;

import android.app.Activity;
import android.os.Bundle;
import android.view.Gravity;
import android.widget.Button;
import android.widget.LinearLayout;
import android.widget.TextView;
import dev.edgec.EdgeException;
import dev.edgec.android.EdgeAssets;
import dev.edgec.models.digits.Digits;

/** Draw a digit, and see it read. */
public final class MainActivity extends Activity {
  private Digits model;

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    TextView answer = new TextView(this);
    answer.setTextSize(96);
    answer.setGravity(Gravity.CENTER);
    try {
      model = new Digits(EdgeAssets.load(getAssets(), Digits.FOLDER, 1));
    } catch (EdgeException error) {
      answer.setTextSize(16);
      answer.setText(error.getMessage());
    }
    Sheet sheet = new Sheet(this, ink -> answer.setText(model == null ? "" : "" + ink.read(model)));
    Button again = new Button(this);
    again.setText("Again");
    again.setOnClickListener(view -> {
      sheet.clear();
      answer.setText("");
    });
    LinearLayout all = new LinearLayout(this);
    all.setOrientation(LinearLayout.VERTICAL);
    all.addView(answer);
    all.addView(sheet, new LinearLayout.LayoutParams(-1, 0, 1));
    all.addView(again);
    setContentView(all);
  }

  @Override
  protected void onDestroy() {
    if (model != null) model.close();
    super.onDestroy();
  }
}
