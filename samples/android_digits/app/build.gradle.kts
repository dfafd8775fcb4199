plugins {
    id("com.android.application")
}

android {
    namespace = "dev.edgec.samples.digits"
    compileSdk = 36
    defaultConfig {
        applicationId = "dev.edgec.samples.digits"
        minSdk = 24
        targetSdk = 36
        versionCode = 1
        versionName = "1"
    }
    // The model is mapped from the APK, so it stays as it is in it.
    androidResources { noCompress += listOf("vmfb", "safetensors") }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
}

dependencies {
    implementation(project(":digits"))
}
